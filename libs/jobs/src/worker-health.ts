import { type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { JobsWorkerModule } from "./jobs-worker.module.js";
import { OptionsError } from "./job/errors.js";
import type { Exposition } from "./observe/exposition.js";
import { monotonic } from "./worker/held.js";
import { causeOf } from "./worker/outage.js";

export interface HealthServer {
  port: number;
  /** From now on not ready. */
  drain(): void;
  close(): Promise<void>;
}

/** Without a tick for so long the process is beyond repair. */
const DEAD_AFTER_MS = 60_000;
/** A look that the database answered proves it; looks are one poll interval apart. So long settling may fail. */
const PROOF_MS = 10_000;

/**
 * `/livez`: the loop turns, the poll ticks, and claims do not stand still though the database answers; never asks the
 * database, never fails because it is away.
 * `/readyz`: the database has answered lately and takes what ended, the schema fits, and it is not draining; costs
 * no query either.
 * `/metrics`, where the app has them: 200 whether the database is there or not.
 */
export async function serveHealth(
  { port, host }: { readonly port: number; readonly host: string },
  workers: readonly JobsWorkerModule[],
  exposition?: Exposition,
): Promise<HealthServer> {
  let draining = false;
  const alive = () =>
    workers.every(
      ({ worker }) =>
        !worker ||
        worker.state === "stopped" ||
        (monotonic() - worker.tickedAt < DEAD_AFTER_MS && !worker.stuck),
    );
  const ready = () =>
    !draining &&
    workers.every(
      ({ worker }) =>
        worker?.state === "working" &&
        monotonic() - worker.answeredAt < PROOF_MS + worker.settings.pollMs * 2 &&
        monotonic() - (worker.unsettledSince ?? monotonic()) < PROOF_MS,
    );
  const server = createServer((request, response) => {
    // Whatever somebody sends: what is no URL must not end the process.
    const [path] = (request.url ?? "/").split("?", 1);
    if (path === "/metrics" && exposition) return void expose(exposition, response);
    const probe = path === "/livez" ? alive : path === "/readyz" ? ready : undefined;
    const ok = probe?.();
    response.writeHead(ok === undefined ? 404 : ok ? 200 : 503, {
      "content-type": "application/json",
      "cache-control": "no-store",
    });
    response.end(
      JSON.stringify(ok === undefined ? { status: "not found" } : { status: ok ? "ok" : "error" }),
    );
  });
  await listen(server, port, host);
  server.unref();
  return {
    port: (server.address() as AddressInfo).port,
    drain: () => (draining = true),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function expose(exposition: Exposition, response: ServerResponse): Promise<void> {
  const answer = (status: number, type: string, text: string) => {
    response.writeHead(status, { "content-type": type, "cache-control": "no-store" });
    response.end(text);
  };
  try {
    answer(200, exposition.contentType, await exposition.text());
  } catch (error) {
    // A metric of the app's own: whoever scrapes must not take the others for all there are.
    answer(500, "text/plain; charset=utf-8", `a metric cannot be read: ${causeOf(error)}\n`);
  }
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", ({ code, message }: NodeJS.ErrnoException) => {
      const found = code === "EADDRINUSE" ? "another process has it" : message;
      reject(
        new OptionsError("options of runWorker", [
          `health.port: cannot listen on port ${port} of ${host}: ${found}`,
        ]),
      );
    });
    server.listen(port, host, () => resolve());
  });
}
