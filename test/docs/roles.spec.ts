import { jest } from "@jest/globals";
import { readFileSync } from "node:fs";
import path from "node:path";
import { Logger } from "@nestjs/common";
import {
  DatabaseRefusedError,
  type JobContext,
  JobInspector,
  JobQueue,
  JobsModule,
  OnEvent,
  UnknownSubscriptionError,
  bury,
  fixed,
  snooze,
} from "nestjs-pg-jobs";
import pg from "pg";
import { Bench, feature } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";
import { Role } from "../support/role.js";
import { until } from "../support/until.js";

// The grants of docs/roles.md suffice, and without them people are told.

const ROOT = path.resolve(import.meta.dirname, "../..");
const page = readFileSync(path.join(ROOT, "docs/roles.md"), "utf8");
const grants = [...page.matchAll(/^```sql\n(.*?)^```$/gms)]
  .flatMap(([, text]) => text!.trim().split("\n"))
  .filter((line) => line.startsWith("grant "));

const NAMES = ["producer", "worker", "admin", "nobody"] as const;
type Name = (typeof NAMES)[number];

let bench: Bench;
let roles: Record<Name, Role>;
const warned: unknown[][] = [];

beforeAll(async () => {
  for (const level of ["warn", "error"] as const)
    jest
      .spyOn(Logger.prototype, level)
      .mockImplementation((...line: unknown[]) => void warned.push(line));
  bench = await Bench.open();
  const made = await Promise.all(NAMES.map(() => Role.create(bench)));
  roles = Object.fromEntries(NAMES.map((name, i) => [name, made[i]!])) as Record<Name, Role>;
});
beforeEach(() => void warned.splice(0));
afterAll(async () => {
  await bench.close();
  for (const role of Object.values(roles)) await role.drop();
  jest.restoreAllMocks();
});

const root = (name: Name) => bench.root({ connection: { url: roles[name].url } });
/** A line of the page, for the schema and the roles of this spec. */
const meant = (line: string) =>
  line
    .replaceAll(/\bjobs_(producer|worker|admin)\b/g, (_, name: Name) => roles[name].name)
    .replaceAll(/\bschema jobs\b/g, `schema ${bench.schema}`);
class Subscriber {
  @OnEvent("happened", { name: "subscribed" })
  get(): void {}
}
const workerApp = async (name: Name) =>
  await bench.app([
    root(name),
    JobsModule.forWorker({
      imports: [
        feature([
          Subscriber,
          handler("works", () => "done"),
          handler("fails", () => Promise.reject(new Error("no use")), {
            attempts: 2,
            backoff: fixed(1),
          }),
          handler("buried", () => bury("no use")),
          handler("snoozes", (_, { attempt }: JobContext) => (attempt === 1 ? snooze(1) : "done")),
          handler("enqueues", async (_, job: JobContext) => {
            await job.enqueue("works", {}, { key: "x", window: "1m" });
          }),
          handler("limited", () => "done", {
            limit: [{ max: 2 }, { max: 1, key: "n" }],
            rate: { max: 100, per: "1s", key: "n" },
          }),
          handler("in-transaction", async (_, job: JobContext) => {
            await job.transaction(async (tx) => void (await tx.query("select 1")));
          }),
        ]),
      ],
      poll: "100ms",
      queues: { default: { concurrency: 5, history: "full" } },
    }),
  ]);

describe("a role without any right", () => {
  it("is told so, by a typed error that says what is missing and where to read on", async () => {
    const app = await bench.app([root("nobody")]);
    const jobs = app.get(JobQueue);
    const inspector = app.get(JobInspector);
    const calls: Record<string, () => Promise<unknown>> = {
      enqueue: () => jobs.enqueue("works"),
      enqueueMany: () => jobs.enqueueMany("works", [{}]),
      get: () => jobs.get("1-1"),
      result: () => jobs.result("1-1"),
      requeue: () => jobs.requeue("1-1"),
      cancel: () => jobs.cancel("1-1"),
      counts: () => inspector.counts(),
    };
    for (const [name, call] of Object.entries(calls)) {
      const error = await call().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect([name, error]).toEqual([name, expect.any(DatabaseRefusedError)]);
      expect(error).toMatchObject({
        code: "DATABASE_REFUSED",
        message: expect.stringMatching(/permission denied for schema .*Grant it.*docs\/roles\.md/s),
      });
    }
    await expect(jobs.enqueue("works")).rejects.toThrow("No job was created");
  });

  it("as a worker: its log says so, and it goes on once it may", async () => {
    await workerApp("nobody");
    await until(() => warned.length > 0, { what: "it says so" });
    expect(warned[0]).toEqual([
      expect.stringMatching(/lacks a right: grant it, docs\/roles\.md/),
      { cause: expect.stringContaining("permission denied for schema") },
    ]);
    const { id } = await (await bench.producer()).enqueue("works");
    await roles.nobody.grantAll();
    await reached(bench, id, "succeeded");
  });
});

describe("with the grants of the page", () => {
  beforeAll(async () => {
    for (const line of grants) await bench.sql(meant(line));
  });

  it("nobody but a worker drops a day", async () => {
    for (const name of ["producer", "admin"] as const) {
      const client = new pg.Client(roles[name].url);
      await client.connect();
      const dropping = client.query(`select ${bench.schema}.drop_partition('done_20200101')`);
      await expect(dropping).rejects.toMatchObject({ code: "42501" });
      await client.end();
    }
  });

  it("a producer enqueues in every way, reads and cancels", async () => {
    const jobs = (await bench.app([root("producer")])).get(JobQueue);
    const queue = "produced";
    const { id } = await jobs.enqueue("works", {}, { queue, delay: "1h" });
    await jobs.enqueueMany("works", [{}, {}], { queue, priority: 3 });
    const options = { queue, key: "k", window: "1m", onConflict: "replace", delay: "1h" } as const;
    await jobs.enqueue("works", { n: 1 }, options);
    expect(await jobs.enqueue("works", { n: 2 }, options)).toMatchObject({ replaced: true });
    await jobs.enqueueMany("works", [{}], { queue, key: "plain", delay: "1h" });
    expect(await jobs.get(id)).toMatchObject({ state: "queued" });
    const waits = jobs.result(id).catch((error: unknown) => error);
    await until(async () => (await bench.sql("select 1 from jobs.job where awaited")).length > 0, {
      what: "it may mark what it waits for",
    });
    expect(await jobs.cancel(id)).toBe("cancelled");
    expect(await waits).toMatchObject({ code: "RESULT_CANCELLED" });
    const client = new pg.Client(roles.producer.url);
    await client.connect();
    try {
      await client.query("begin");
      await jobs.in(client).enqueue("works", {}, { queue });
      await client.query("commit");
      await client.query(`select ${bench.schema}.declare('by-sql', 'works')`);
      await client.query(`select ${bench.schema}.enqueue('works', queue => 'by-sql')`);
      await client.query(`select ${bench.schema}.wake('by-sql')`);
    } finally {
      await client.end();
    }
    expect((await jobs.queues.pause(queue, { by: "ada" })).paused).toMatchObject({ by: "ada" });
    expect((await jobs.queues.resume(queue)).paused).toBeNull();
    expect(await jobs.publish("unheard.of", {})).toEqual([]);
    expect(await jobs.subscriptions("unheard.of")).toEqual([]);
    await expect(jobs.unsubscribe("unheard.of", "x")).rejects.toThrow(UnknownSubscriptionError);
    const limit = { max: 5, key: "n" };
    expect(await jobs.queues.limit(queue, { limit, rate: { max: 9, per: "1s" } })).toHaveLength(2);
    await jobs.queues.pause(queue, { key: "7" });
    await jobs.queues.resume(queue, { key: "7" });
    expect(await jobs.queues.limit(queue, {})).toEqual([]);
  });

  it("a worker runs jobs to every end, and keeps the house", async () => {
    await bench.sql("update jobs.queue set prune_dead = '1 second', archive_dead = '1 second'");
    // One of them is a turn that is taken when it is needed, and nobody's duty.
    await bench.sql("update jobs.chore set due_at = now() where name <> 'seclusion'");
    await workerApp("worker");
    const jobs = await bench.producer();
    const ends = {
      works: "succeeded",
      fails: "dead",
      buried: "dead",
      snoozes: "succeeded",
      enqueues: "succeeded",
      limited: "succeeded",
      "in-transaction": "succeeded",
    };
    for (const [kind, state] of Object.entries(ends)) {
      const { id } = await jobs.enqueue(kind);
      await reached(bench, id, state);
    }
    const [delivery] = await jobs.publish("happened", {});
    await reached(bench, delivery!.id, "succeeded");
    const limited = await jobs.enqueueMany("limited", [{ n: 1 }, { n: 1 }, { n: 1 }]);
    for (const { id } of limited) await reached(bench, id, "succeeded");
    await until(
      async () =>
        (
          await bench.sql(
            "select 1 from jobs.chore where due_at <= now() - interval '1 s' and name <> 'seclusion'",
          )
        ).length === 0,
      { what: "the chores are done" },
    );
    const told = warned.filter(([message]) => !String(message).startsWith("Job "));
    expect(told).toEqual([]);
  });

  it("an admin reads everything, requeues and cancels", async () => {
    const producer = await bench.producer();
    const app = await bench.app([root("admin")]);
    const inspector = app.get(JobInspector);
    const jobs = app.get(JobQueue);
    const cancelled = (await producer.enqueue("elsewhere", {}, { queue: "far", delay: "1h" })).id;
    expect(await jobs.cancel(cancelled)).toBe("cancelled");
    expect(await jobs.requeue(cancelled)).toBe("queued");
    expect(await inspector.get(cancelled)).toMatchObject({ state: "queued" });
    expect((await inspector.list()).items.length).toBeGreaterThan(0);
    await inspector.attempts(cancelled);
    await inspector.history(cancelled);
    for (const read of ["counts", "queues", "workers", "health"] as const)
      expect((await inspector[read]()).length).toBeGreaterThan(0);
    await inspector.unknownKinds();
    const [letter] = await bench.sql<{ id: string }>(
      "select id from jobs.job_status where state = 'dead'",
    );
    expect(await jobs.requeue(letter!.id)).toBe("queued");
  });
});
