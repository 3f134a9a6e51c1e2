import type { ExecutionContext } from "@nestjs/common";
import { ConsoleLogger, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { request } from "node:http";
import { JobsAdminModule } from "nestjs-pg-jobs-admin";
import { LoopbackDoor } from "../../libs/jobs-admin/src/auth/loopback.js";
import { AdminApp } from "../support/admin-app.js";
import { Bench } from "../support/harness.js";

// Development mode: no credential, so nobody from elsewhere.

const door = new LoopbackDoor();
type Line = [remoteAddress: string | undefined, localAddress: string, host: string];
const from = (...[remoteAddress, localAddress, host]: Line) =>
  door
    .admit({
      switchToHttp: () => ({
        getRequest: () => ({ socket: { remoteAddress, localAddress }, headers: { host } }),
      }),
    } as unknown as ExecutionContext)
    .then(
      ({ role }) => role as string,
      (error: { code: string }) => error.code,
    );

it.each<Line>([
  ["127.0.0.1", "127.0.0.1", "localhost:3001"],
  ["127.8.8.8", "127.8.8.8", "127.8.8.8"],
  ["::1", "::1", "[::1]:80"],
  ["::ffff:127.0.0.1", "::ffff:127.0.0.1", "LOCALHOST"],
])("%s to %s as %s comes in", async (...line) => {
  expect(await from(...line)).toBe("admin");
});

it.each<Line>([
  ["10.0.0.7", "10.0.0.1", "localhost"],
  ["127.0.0.1", "10.0.0.1", "localhost"],
  ["10.0.0.7", "127.0.0.1", "localhost"],
  ["::ffff:10.0.0.7", "::1", "localhost"],
  ["1127.0.0.1", "127.0.0.1", "localhost"],
  [undefined, "127.0.0.1", "localhost"],
  ["127.0.0.1", "127.0.0.1", "evil.example"],
  ["127.0.0.1", "127.0.0.1", "localhost.evil.example"],
  ["127.0.0.1", "127.0.0.1", ""],
])("%s to %s as %s does not", async (...line) => {
  expect(await from(...line)).toBe("LOOPBACK_ONLY");
});

describe("in an app", () => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await Bench.open();
  });
  afterAll(async () => await bench.close());

  it("refuses the name of somebody else's page that leads here", async () => {
    const admin = await AdminApp.open(bench, "express", { development: true });
    const { port } = new URL(admin.url);
    const status = await new Promise((resolve, reject) => {
      const headers = { host: `evil.example:${port}` };
      request({ port, host: "127.0.0.1", path: "/admin/stats", headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on("error", reject)
        .end();
    });
    expect(status).toBe(403);
    await admin.close();
  });

  it("says so loudly when it starts", async () => {
    const lines: unknown[] = [];
    class Lines extends ConsoleLogger {
      override log(): void {}
      override warn(line: unknown): void {
        lines.push(line);
      }
    }
    @Module({ imports: [bench.root(), JobsAdminModule.forRoot({ development: true })] })
    class App {}
    const app = await NestFactory.create(App, { logger: new Lines(), abortOnError: false });
    await app.init();
    await app.close();
    expect(lines).toContainEqual(expect.stringMatching(/^DEVELOPMENT: .*asks nobody/));
  });
});
