import { jest } from "@jest/globals";
import { Logger } from "@nestjs/common";
import {
  type HistoryEvent,
  type QueueOptions,
  JobInspector,
  JobQueue,
  bury,
  snooze,
} from "nestjs-pg-jobs";
import { spine } from "../../libs/jobs/src/store/migrations/0001-spine.js";
import { checksum } from "../../libs/jobs/src/store/migrations/migration.js";
import { Bench } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

// Told once to `forWorker`, the history of a queue is written by whoever moves its jobs.

let bench: Bench;
afterEach(async () => await bench.close());

/** Snoozes, fails, and dies; once requeued it succeeds. */
const moody = () =>
  handler("moody", (_, { attempt }) => {
    if (attempt === 1) return snooze(1);
    if (attempt === 2) throw new Error("once");
    return attempt === 3 ? bury("no use") : "done";
  });
const STORY = [
  "1/0 enqueued",
  "1/1 started",
  "1/1 snoozed",
  "1/2 started",
  "1/2 retried",
  "1/3 started",
  "1/3 died",
  "2/3 requeued",
  "2/4 started",
  "2/4 succeeded",
];
const briefly = (events: readonly HistoryEvent[]) =>
  events.map(({ generation, attempt, event }) => `${generation}/${attempt} ${event}`);

async function live(jobs: JobQueue): Promise<string> {
  const { id } = await jobs.enqueue("moody");
  await reached(bench, id, "dead", { attempt: 3 });
  await jobs.requeue(id);
  await until(async () => ["succeeded", undefined].includes(await bench.state(id)), {
    what: "it succeeds",
  });
  return id;
}
const options = { defaults: { backoff: { delay: () => 1 } } };

const mode = async () =>
  (await bench.sql<{ history: string }>("select history from jobs.queue"))[0]?.history;
/** A worker tells it in the background: what is enqueued before is written in the mode before. */
const told = (history: string) =>
  until(async () => (await mode()) === history, { what: `the mode is ${history}` });

describe("the history of a queue", () => {
  it.each(["full", "exceptions"] as const)("is whole in mode %s", async (history) => {
    bench = await Bench.open();
    const queues = { default: { history } };
    const app = await bench.worker([moody()], { queues }, options);
    await told(history);
    const id = await live(await bench.producer());
    const story = await app.get(JobInspector).history(id);
    expect(briefly(story)).toEqual(STORY);
    expect(story.find(({ event }) => event === "died")).toMatchObject({
      reason: "buried",
      error: { message: "no use" },
      worker: expect.stringMatching(new RegExp(`:${process.pid}$`)),
    });
    const rows = await bench.sql("select event from jobs.event");
    expect(rows).toHaveLength(history === "full" ? STORY.length : 2);
  });

  it("is whole in mode full of a job that is not kept", async () => {
    bench = await Bench.open();
    const queues = { default: { history: "full", keep: false } } as const;
    const app = await bench.worker([moody()], { queues }, options);
    await told("full");
    const id = await live(app.get(JobQueue));
    expect(await bench.state(id)).toBeUndefined();
    expect(briefly(await app.get(JobInspector).history(id))).toEqual(STORY);
    expect(await app.get(JobInspector).counts()).toMatchObject([
      { unfinished: 0, succeeded: 0, dead: 0, pruned: 1 },
    ]);
  });

  it.each([
    ["full", true],
    ["exceptions", true],
    ["none", false],
  ] as const)(
    "in mode %s tells that a cancel was requested: %s, and what the attempt then threw",
    async (history, requested) => {
      bench = await Bench.open();
      const gate = new Gate();
      const app = await bench.worker(
        [
          handler("work", async () => {
            await gate.opened;
            throw new Error("boom");
          }),
        ],
        { queues: { default: { history } } },
      );
      await told(history);
      const jobs = app.get(JobQueue);
      const { id } = await jobs.enqueue("work");
      await reached(bench, id, "running");
      expect(await jobs.cancel(id)).toBe("requested");
      gate.open();
      expect(await reached(bench, id, "cancelled")).toMatchObject({
        failures: 1,
        last_error: "boom",
      });
      const story = await app.get(JobInspector).history(id);
      expect(briefly(story)).toEqual([
        "1/0 enqueued",
        "1/1 started",
        ...(requested ? ["1/1 cancel-requested"] : []),
        "1/1 cancelled",
      ]);
      expect(story.at(-1)).toMatchObject({ error: { message: "boom" } });
      expect(await jobs.get(id)).toMatchObject({ state: "cancelled", lastError: "boom" });
    },
  );

  it("is not written in mode none", async () => {
    bench = await Bench.open();
    const app = await bench.worker(
      [moody()],
      { queues: { default: { history: "none" } } },
      options,
    );
    await told("none");
    await live(app.get(JobQueue));
    expect(await bench.sql("select from jobs.event")).toEqual([]);
  });

  it("has a mode that the worker started last decides, for every process", async () => {
    bench = await Bench.open();
    for (const history of ["full", "none"] as const) {
      await bench.worker([moody()], { queues: { default: { history } } }, options);
      await told(history);
    }
    await bench.worker([moody()], {}, options);
    await told("exceptions");
    expect(await mode()).toBe("exceptions");
  });

  it.each([
    ["as it stands there", undefined],
    ["another one, which is written later", "full"],
  ] as const)(
    "keeps no worker from its work while somebody's transaction adds a lane: %s",
    async (_, history) => {
      bench = await Bench.open();
      const before = await bench.worker([moody()], {}, options);
      await live(before.get(JobQueue));
      await bench.closeApps();
      const client = await bench.client();
      await client.query("begin");
      await client.query(`select ${bench.schema}.declare('default', 'another')`);
      const said = history ? { queues: { default: { history } } } : {};
      const app = await bench.worker([moody()], said, options);
      await live(app.get(JobQueue));
      expect(await mode()).toBe("exceptions");
      await client.query("commit");
      client.release();
      await told(history ?? "exceptions");
    },
  );

  it("is not the only setting that the log tells of when it changes; ages that get shorter are warned of", async () => {
    bench = await Bench.open();
    const DAY_MS = 86_400_000;
    const told: unknown[][] = [];
    const spies = (["log", "warn"] as const).map((level) =>
      jest.spyOn(Logger.prototype, level).mockImplementation((...line: unknown[]) => {
        if (/settings of a queue/.test(String(line[0])))
          told.push([level, line.find((one) => typeof one === "object")]);
      }),
    );
    try {
      const says = async (settings: QueueOptions | undefined, count: number) => {
        await bench.worker([moody()], settings ? { queues: { default: settings } } : {});
        await until(() => told.length === count, { what: `it is told of ${count} changes` });
      };
      await says({ archiveDead: "30d", pruneDead: "300d", history: "full" }, 1);
      await says({ archiveDead: "30d", pruneDead: "300d" }, 2);
      await says({ archiveDead: "20d", pruneDead: "301d" }, 3);
      await says(undefined, 4);
      const never = { archiveDeadMs: null, pruneDeadMs: null };
      const first = { archiveDeadMs: 30 * DAY_MS, pruneDeadMs: 300 * DAY_MS };
      const last = { archiveDeadMs: 20 * DAY_MS, pruneDeadMs: 301 * DAY_MS };
      const queue = "default";
      expect(told).toEqual([
        [
          "warn",
          {
            queue,
            before: { history: "exceptions", ...never },
            now: { history: "full", ...first },
          },
        ],
        ["log", { queue, before: { history: "full" }, now: { history: "exceptions" } }],
        ["warn", { queue, before: first, now: last }],
        ["log", { queue, before: last, now: never }],
      ]);
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  });
});

describe("on the schema of the release before", () => {
  beforeEach(async () => {
    bench = await Bench.open({ migrated: false });
    await bench.sql(`create schema ${bench.schema}`);
    await bench.sql(spine.sql(bench.schema));
    await bench.sql(
      `create table jobs.migration (version integer primary key, name text not null, checksum text not null,
         applied_at timestamptz not null default now())`,
    );
    await bench.sql("insert into jobs.migration values (1, 'spine', $1)", [checksum(spine)]);
  });

  it("workers work, and the history says what it needs", async () => {
    const queues = { default: { history: "full", pruneDead: "1d" } } as const;
    const app = await bench.worker([moody()], { queues }, options);
    const id = await live(app.get(JobQueue));
    expect(await bench.state(id)).toBe("succeeded");
    expect(await app.get(JobInspector).attempts(id)).toHaveLength(2);
    await expect(app.get(JobInspector).history(id)).rejects.toMatchObject({
      code: "SCHEMA_NOT_READY",
      needed: 2,
      feature: "the history of jobs",
    });
  });

  it("what workers were told holds once it is brought up to date, whoever has noticed that first", async () => {
    const queues = { default: { history: "full" } } as const;
    const app = await bench.worker([moody()], { queues }, { ...options, keepFinished: "30d" });
    const id = await live(app.get(JobQueue));
    await bench.migrate();
    expect(await app.get(JobInspector).history(id)).not.toEqual([]);
    const said = async () =>
      await bench.sql(
        "select from jobs.worker, jobs.queue where keep_finished = interval '30 days' and history = 'full'",
      );
    await until(async () => (await said()).length > 0, { timeout: 20_000 });
    const [chore] = await bench.sql<{ later: boolean }>(
      "select due_at > now() + interval '30 minutes' as later from jobs.chore where name = 'retention'",
    );
    expect(chore!.later).toBe(true);
  });

  it("what is not kept is not kept there either", async () => {
    const app = await bench.worker([moody()], { queues: { default: { keep: false } } }, options);
    const id = await live(app.get(JobQueue));
    expect(await bench.state(id)).toBeUndefined();
    expect(await app.get(JobInspector).counts()).toMatchObject([{ unfinished: 0, pruned: 1 }]);
  });
});
