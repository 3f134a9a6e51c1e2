import { readFileSync } from "node:fs";
import path from "node:path";
import { jest } from "@jest/globals";
import { type INestApplication, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { JobQueue } from "nestjs-pg-jobs";
import { Gate, handler, reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { looks } from "../support/looks.js";
import { until } from "../support/until.js";
import { JobNewsController } from "./follow.example.js";

// What docs/looking.md shows of server-sent events is a file that is compiled, and served.

const LOOK_MS = 1_000;
let bench: Bench;
let app: INestApplication;
let gate: Gate;
beforeEach(async () => {
  bench = await Bench.open();
  gate = new Gate();
  @Module({ imports: [bench.root()], controllers: [JobNewsController] })
  class App {}
  app = await NestFactory.create(App, { logger: false, abortOnError: false });
  await app.listen(0, "127.0.0.1");
});
afterEach(async () => {
  jest.restoreAllMocks();
  gate.open();
  await app.close();
  await bench.close();
});

const work = () =>
  handler("work", async (_, job) => {
    job.log("one");
    job.log("two");
    await gate.opened;
    job.log("three");
  });

/** Reads what is told of a job, in the background. */
async function listen(id: string, headers: Record<string, string> = {}) {
  const gone = new AbortController();
  const response = await fetch(`${await app.getUrl()}/jobs/${id}/news`, {
    headers,
    signal: gone.signal,
  });
  const heard = { text: "" };
  const over = (async () => {
    const decoder = new TextDecoder();
    for await (const part of response.body!) heard.text += decoder.decode(part as Uint8Array);
  })();
  return { heard, over, leave: () => gone.abort() };
}

it("the example is the file", () => {
  const [page, file] = ["../../docs/looking.md", "follow.example.ts"].map((name) =>
    readFileSync(path.join(import.meta.dirname, name), "utf8"),
  );
  expect([...page!.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text]) => text)).toEqual([file]);
});

it("tells of a job until it is over, and goes on behind what was heard", async () => {
  const { id } = await app.get(JobQueue).enqueue("work");
  const { heard, over } = await listen(id);
  await until(() => heard.text.includes('"queued"'), { what: "it waits" });
  await bench.worker([work()]);
  await until(() => heard.text.includes('"two"'), { what: "it is heard of while it runs" });
  expect(await bench.state(id)).toBe("running");
  gate.open();
  await over;
  expect(heard.text).toMatch(/"queued".*"running".*"one".*"two".*"three".*"succeeded"/s);

  const place = /id: (.*)\ndata: .*"two"/.exec(heard.text)![1]!;
  const rest = await listen(id, { "last-event-id": place });
  await rest.over;
  expect(rest.heard.text).toMatch(/"three".*"succeeded"/s);
  expect(rest.heard.text).not.toContain('"two"');
  // Whatever came last, a browser asks again with its id.
  const ids = [...rest.heard.text.matchAll(/^id: ?(.*)$/gm)].map(([, one]) => one!);
  const again = await listen(id, { "last-event-id": ids.at(-1)! });
  await again.over;
  expect(again.heard.text).toContain('"succeeded"');
  expect(again.heard.text).not.toContain('"three"');
  const waits = await app.get(JobQueue).enqueue("work", {}, { delay: "1h" });
  const early = await listen(waits.id);
  await until(() => early.heard.text.includes('"queued"'), { what: "it waits" });
  expect(early.heard.text).toMatch(/^id: ?$/m);
  early.leave();
  await expect(early.over).rejects.toThrow("abort");
});

it("a client that goes is followed for no more", async () => {
  const { id } = await app.get(JobQueue).enqueue("work");
  const { heard, over, leave } = await listen(id);
  await until(() => heard.text.includes('"queued"'), { what: "it waits" });
  leave();
  await expect(over).rejects.toThrow("abort");
  const count = looks(bench);
  // One may be under way.
  const from = performance.now();
  await until(() => performance.now() - from > 3 * LOOK_MS, { what: "three looks would come" });
  expect(count()).toBeLessThanOrEqual(2);
});

it("an app that closes does not wait for its listeners", async () => {
  const { id } = await app.get(JobQueue).enqueue("work", {}, { delay: "1h" });
  const { heard, over } = await listen(id);
  await until(() => heard.text.includes('"queued"'), { what: "it waits" });
  const from = performance.now();
  await app.close();
  await over;
  expect(performance.now() - from).toBeLessThan(5_000);
  expect(heard.text).toContain("event: error");
  expect(await reached(bench, id, "queued", { attempt: 0 })).toBeDefined();
});
