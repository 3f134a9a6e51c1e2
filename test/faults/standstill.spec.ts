import { jest } from "@jest/globals";
import { type INestApplicationContext, Logger } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { JobsWorkerModule } from "../../libs/jobs/src/jobs-worker.module.js";
import { Session } from "../../libs/jobs/src/pg/session.js";
import { serveHealth } from "../../libs/jobs/src/worker-health.js";
import { handler, reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// A claim loop that stands still for ever, as only a fault of ours could make it, while the database answers.

let bench: Bench;
let warned: unknown[];
beforeEach(async () => {
  bench = await Bench.open();
  warned = [];
  for (const level of ["warn", "error"] as const)
    jest.spyOn(Logger.prototype, level).mockImplementation((line) => void warned.push(line));
});
afterEach(async () => {
  jest.restoreAllMocks();
  await bench.close();
});

const worker = async (): Promise<INestApplicationContext> =>
  await bench.worker(["works", "more"].map((kind) => handler(kind, () => "done")));

/** A job is done: the loop has turned. */
async function turns(app: INestApplicationContext): Promise<void> {
  const { id } = await app.get(JobQueue).enqueue("works");
  await reached(bench, id, "succeeded");
}

const never = () => new Promise<never>(() => {});
// oxlint-disable-next-line typescript/unbound-method -- called on the session that it is asked of
const { exclusive, run } = Session.prototype;

/** The next statement of this name has its connection for ever, and answers nothing; answers how often that was. */
function hangAt(name: string): () => number {
  let hung = 0;
  jest.spyOn(Session.prototype, "run").mockImplementation(function (this: Session, ...call) {
    if (hung > 0 || call[0].name !== name) return run.apply(this, call);
    hung++;
    return exclusive.call(this, never) as Promise<never>;
  });
  return () => hung;
}

const standsStill = expect.stringMatching(/^the claim loop stands still although/);

it("is repaired and told of, and jobs run again", async () => {
  const app = await worker();
  await turns(app);
  let hung = 0;
  jest.spyOn(Session.prototype, "exclusive").mockImplementation(function (this: Session, fn) {
    // The next look: what it waits for never comes, and claims wait behind it.
    if (hung > 0 || !String(fn).includes("takeOver")) return exclusive.call(this, fn);
    hung++;
    return exclusive.call(this, never);
  });
  const late = await app.get(JobQueue).enqueue("works");
  await reached(bench, late.id, "succeeded", { timeout: 30_000 });
  expect(hung).toBe(1);
  // A claim that waited behind it may be told of too.
  expect(warned[0]).toEqual(standsStill);
}, 45_000);

it("is repaired where it reads lanes, on the connection that calls share", async () => {
  const app = await worker();
  await turns(app);
  const hung = hangAt("list_lanes");
  // A new lane is read by the next look.
  const late = await app.get(JobQueue).enqueue("more");
  await until(hung, { what: "it hangs" });
  // It goes on waiting behind what hangs, and is created once.
  const behind = app.get(JobQueue).enqueue("works");
  for (const { id } of [late, await behind])
    await reached(bench, id, "succeeded", { timeout: 30_000 });
  expect(hung()).toBe(1);
  expect(warned).toContainEqual(standsStill);
  expect(await bench.states()).toEqual({ succeeded: 3 });
}, 60_000);

it("is repaired where it has not begun yet", async () => {
  const hung = hangAt("find_queue");
  const app = await worker();
  await until(hung, { what: "it hangs" });
  const { id } = await app.get(JobQueue).enqueue("works");
  await reached(bench, id, "succeeded", { timeout: 30_000 });
  expect(warned).toContainEqual(standsStill);
}, 60_000);

it("fails /livez when no repair helps", async () => {
  const app = await worker();
  await turns(app);
  const probes = await serveHealth({ port: 0, host: "127.0.0.1" }, [app.get(JobsWorkerModule)]);
  const livez = async () => (await fetch(`http://127.0.0.1:${probes.port}/livez`)).status;
  let hung = 0;
  // On no connection: there is nothing to replace.
  jest.spyOn(Session.prototype, "run").mockImplementation(function (this: Session, ...call) {
    if (call[0].name !== "list_lanes") return run.apply(this, call);
    hung++;
    return never();
  });
  await app.get(JobQueue).enqueue("more");
  await until(() => hung > 0, { what: "it hangs" });
  expect(await livez()).toBe(200);
  await until(async () => (await livez()) === 503, { timeout: 60_000, what: "it is stuck" });
  expect(warned).toContainEqual(
    expect.stringMatching(/stands still and could not be repaired: \/livez fails/),
  );
  await probes.close();
}, 90_000);
