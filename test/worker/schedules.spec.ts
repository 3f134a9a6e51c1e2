import { jest } from "@jest/globals";
import { Injectable, Logger, type Type } from "@nestjs/common";
import { CronExpressionParser } from "cron-parser";
import {
  type JobContext,
  JobQueue,
  OptionsError,
  ScheduleDeclaredError,
  ScheduledJob,
  type ScheduledJobOptions,
  type ScheduleView,
  UnknownScheduleError,
  defineJob,
} from "nestjs-pg-jobs";
import { z } from "zod";
import { applyWithin } from "../../libs/jobs/src/store/migrations/migrate.js";
import { Gate, handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { Role } from "../support/role.js";
import { until } from "../support/until.js";

const EACH_SECOND = "* * * * * *";
const NEVER_SOON = "0 0 29 2 *";

/** A provider whose one method is run at set times. */
function scheduled(
  kind: Parameters<typeof ScheduledJob>[0],
  options: ScheduledJobOptions,
  body: (job: JobContext, payload: unknown) => unknown = () => undefined,
): Type<unknown> {
  @Injectable()
  class Scheduled {
    @ScheduledJob(kind, options)
    run(payload: unknown, job: JobContext): unknown {
      return body(job, payload);
    }
  }
  return Scheduled;
}

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => await bench.close());

/** Ticks of a schedule that had a job, in order, as the tables have them; in ms. */
async function ticks(name: string): Promise<number[]> {
  const rows = await bench.sql<{ tick: number }>(
    `select (headers ->> 'tick')::float8 as tick from (
       select headers from jobs.job union all select headers from jobs.done union all select headers from jobs.dead) one
     where headers ->> 'schedule' = $1 order by 1`,
    [name],
  );
  return rows.map(({ tick }) => tick);
}

/** Moves what a schedule foresees and has seen to, not the clock: to it, it is so much later. */
const age = async (name: string, by: string) =>
  await bench.sql(
    `update jobs.schedule set next_at = next_at - $2::interval, last_at = last_at - $2::interval,
       declared_at = declared_at - $2::interval, orphaned_at = orphaned_at - $2::interval,
       paused_at = paused_at - $2::interval, paused_until = paused_until - $2::interval
     where name = $1`,
    [name, by],
  );

describe("a schedule", () => {
  it("has one job at each tick, whatever the number of processes and their clocks", async () => {
    const seen: { name: string; tick: number }[] = [];
    const feature = scheduled("digest", { cron: EACH_SECOND, payload: { to: "all" } }, (job) => {
      seen.push({ name: job.schedule!.name, tick: job.schedule!.tick!.getTime() });
    });
    // An hour ahead, as this process sees it; the database does not.
    const now = Date.now;
    const skewed = jest.spyOn(Date, "now").mockImplementation(() => now() + 3_600_000);
    try {
      for (let n = 0; n < 3; n++) await bench.worker([feature]);
      await until(() => seen.length >= 4, { what: "four ticks" });
      await bench.closeApps();
    } finally {
      skewed.mockRestore();
    }
    const all = await ticks("digest");
    expect(all.length).toBeGreaterThanOrEqual(4);
    expect(all.map((tick) => (tick - all[0]!) / 1_000)).toEqual(all.map((_, index) => index));
    expect(Math.abs(all[0]! - now())).toBeLessThan(60_000);
    expect(new Set(seen.map(({ tick }) => tick)).size).toBe(seen.length);
    expect(seen.every(({ name }) => name === "digest")).toBe(true);
    const [{ payload }] = (await bench.sql<{ payload: unknown }>(
      "select payload from jobs.job_status limit 1",
    )) as [{ payload: unknown }];
    expect(payload).toEqual({ to: "all" });
  });

  it("is seen to in time: the job starts within moments of the tick", async () => {
    const late: number[] = [];
    // Polls are a second apart: it is a timer that sees to it.
    await bench.worker(
      [
        scheduled("prompt", { cron: EACH_SECOND }, async (job) => {
          const [{ ms }] = (await bench.sql<{ ms: number }>(
            "select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms",
          )) as [{ ms: number }];
          late.push(ms - job.schedule!.tick!.getTime());
        }),
      ],
      { poll: "1s" },
    );
    await until(() => late.length >= 6, { what: "six ticks" });
    const sorted = late.slice(1).toSorted((a, b) => a - b);
    expect(sorted[0]).toBeGreaterThanOrEqual(0);
    expect(sorted[Math.floor(sorted.length / 2)]).toBeLessThan(400);
  });

  it("with overlap skip leaves ticks out while the job before is not over; with queue they wait", async () => {
    const gate = new Gate();
    await bench.worker([
      scheduled("alone", { cron: EACH_SECOND, overlap: "skip" }, async () => await gate.opened),
      scheduled("behind", { cron: EACH_SECOND, overlap: "queue" }, async () => await gate.opened),
    ]);
    await until(async () => (await ticks("behind")).length >= 4, { what: "four wait" });
    expect(await ticks("alone")).toHaveLength(1);
    gate.open();
    await until(async () => (await ticks("alone")).length >= 2, { what: "it goes on" });
  });
});

describe("ticks that nobody saw in time", () => {
  // Half an hour away: the last one was missed by more than a minute.
  const minute = (new Date().getUTCMinutes() + 30) % 60;
  // The hours that the clock leaves out or repeats are those in which G8 and the oracle may differ.
  const HOURLY = { cron: `${minute} 1-23/2 * * *`, timeZone: "Europe/Berlin" };

  async function afterHours(misfire: "skip" | "one" | "all", by: string): Promise<number[]> {
    const jobs = await bench.producer();
    await jobs.schedules.upsert("report", "report", { ...HOURLY, misfire, overlap: "queue" });
    await age("report", by);
    await bench.worker([handler("report", () => undefined)]);
    await until(async () => (await jobs.schedules.get("report"))!.nextAt!.getTime() > Date.now(), {
      what: "it is seen to",
    });
    return await ticks("report");
  }

  /** What an independent library foresees from then until now. */
  function oracle(from: number): number[] {
    const interval = CronExpressionParser.parse(HOURLY.cron, {
      tz: HOURLY.timeZone,
      currentDate: new Date(from - 1),
      endDate: new Date(),
    });
    const found: number[] = [];
    while (interval.hasNext()) found.push(interval.next().getTime());
    return found;
  }

  it("are forgotten by misfire skip", async () => {
    expect(await afterHours("skip", "10 hours")).toEqual([]);
  });

  it("are made up for by one, of the last of them, by misfire one", async () => {
    const found = await afterHours("one", "10 hours");
    expect(found).toEqual(oracle(Date.now() - 86_400_000).slice(-1));
  });

  it("are all made up for by misfire all, over months and changes of the clock", async () => {
    const found = await afterHours("all", "250 days");
    expect(found.length).toBeGreaterThan(249 * 12);
    expect(found).toEqual(oracle(found[0]!));
  });
});

describe("jobs.schedules", () => {
  it("makes, changes, lists and removes schedules while others run", async () => {
    const { schedules } = await bench.producer();
    const made = await schedules.upsert("nightly", "report", {
      cron: "30 2 * * *",
      timeZone: "America/New_York",
      queue: "mail",
      priority: 7,
      payload: { a: 1 },
    });
    expect(made).toMatchObject({
      name: "nightly",
      kind: "report",
      queue: "mail",
      priority: 7,
      cron: "0 30 2 * * *",
      timeZone: "America/New_York",
      overlap: "skip",
      misfire: "one",
      payload: { a: 1 },
      lastAt: null,
      lastJob: null,
      lastRuns: [],
      paused: null,
      service: null,
    });
    expect(made.nextAt!.getTime()).toBeGreaterThan(Date.now());
    const same = await schedules.upsert("nightly", "report", options(made));
    expect(same.nextAt).toEqual(made.nextAt);
    const changed = await schedules.upsert("nightly", "report", { cron: "@hourly" });
    expect(changed).toMatchObject({ cron: "0 0 * * * *", timeZone: "UTC", queue: "default" });
    expect(changed.nextAt!.getTime() - Date.now()).toBeLessThanOrEqual(3_600_000);
    expect((await schedules.list()).map(({ name }) => name)).toEqual(["nightly"]);
    expect(await schedules.get("nightly")).toEqual(changed);
    expect(await schedules.remove("nightly")).toBe(true);
    expect(await schedules.remove("nightly")).toBe(false);
    expect(await schedules.get("nightly")).toBeNull();
  });

  it("checks the payload against the contract", async () => {
    const { schedules } = await bench.producer();
    const Report = defineJob("report", { payload: z.object({ day: z.string() }) });
    await expect(
      schedules.upsert("r", Report, { cron: "@daily", payload: { day: 1 } as never }),
    ).rejects.toMatchObject({ code: "PAYLOAD_INVALID" });
    expect(await schedules.list()).toEqual([]);
  });

  it("pauses with who, why and until when; ticks meanwhile are not made up for", async () => {
    const app = await bench.worker([handler("report", () => undefined)]);
    const { schedules } = app.get(JobQueue);
    await schedules.upsert("r", "report", { cron: EACH_SECOND, misfire: "all" });
    await until(async () => (await ticks("r")).length >= 1);
    const until1 = new Date(Date.now() + 3_600_000);
    const paused = await schedules.pause("r", { by: "ann", why: "month's end", until: until1 });
    expect(paused.paused).toMatchObject({ by: "ann", why: "month's end", until: until1 });
    const before = await ticks("r");
    await age("r", "30 minutes");
    // The tick that was foreseen is over by now, but it is paused: a look or two later nothing has come of it.
    await until(async () => {
      const [{ over }] = (await bench.sql<{ over: boolean }>(
        "select now() > paused_at + interval '30 minutes 2 s' as over from jobs.schedule",
      )) as [{ over: boolean }];
      return over;
    });
    expect(await ticks("r")).toEqual(before);
    await age("r", "31 minutes");
    await until(async () => (await ticks("r")).length > before.length, { what: "it goes on" });
    const [view, all] = [await schedules.get("r"), await ticks("r")];
    expect(view!.paused).toBeNull();
    expect(all[before.length]! - Date.now()).toBeGreaterThan(-120_000);

    await schedules.pause("r");
    await age("r", "30 minutes");
    const resumed = await schedules.resume("r");
    expect(resumed.paused).toBeNull();
    expect(resumed.nextAt!.getTime()).toBeGreaterThan(Date.now() - 1_000);
  });

  it("runs one now, but not beside its own job where that is not over", async () => {
    const gate = new Gate();
    const runs: (Date | undefined)[] = [];
    const app = await bench.worker([
      handler("report", async (_payload, job) => {
        runs.push(job.schedule!.tick);
        await gate.opened;
      }),
    ]);
    const { schedules } = app.get(JobQueue);
    await schedules.upsert("r", "report", { cron: NEVER_SOON });
    const answers = await Promise.all(Array.from({ length: 5 }, () => schedules.runNow("r")));
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    await until(() => runs.length === 1);
    expect(runs).toEqual([undefined]);
    gate.open();
    const first = answers[0]!.id;
    await until(async () => (await bench.state(first)) === "succeeded");
    const next = await schedules.runNow("r");
    expect(next).toMatchObject({ deduplicated: false });
    expect((await schedules.get("r"))!.lastJob).toBe(next.id);
    const [newest, before] = (await schedules.get("r"))!.lastRuns;
    expect(newest).toMatchObject({ id: next.id });
    expect(before).toEqual({ id: first, state: "succeeded" });

    await schedules.upsert("q", "report", { cron: NEVER_SOON, overlap: "queue" });
    const many = await Promise.all(Array.from({ length: 60 }, () => schedules.runNow("q")));
    expect(new Set(many.map(({ id }) => id)).size).toBe(60);
  });

  it("refuses names that cannot be, and takes null for what it is", async () => {
    const { schedules } = await bench.producer();
    for (const name of ["", "\0", undefined, 5] as string[])
      for (const call of [
        () => schedules.get(name),
        () => schedules.remove(name),
        () => schedules.pause(name),
        () => schedules.resume(name),
        () => schedules.runNow(name),
        () => schedules.upsert(name, "report", { cron: "@daily" }),
      ])
        await expect(call()).rejects.toThrow(OptionsError);
    await expect(
      schedules.upsert("r", "report", { cron: "@daily", timeZone: null as never }),
    ).rejects.toThrow(/time zone such as 'Europe\/Berlin', found null/);
    await schedules.upsert("r", "report", { cron: "@daily", payload: null });
    expect((await schedules.get("r"))!.payload).toBeNull();
  });

  it("answers a name that there is none of with the one that may be meant", async () => {
    const { schedules } = await bench.producer();
    await schedules.upsert("nightly", "report", { cron: "@daily" });
    for (const call of [schedules.pause("nighty"), schedules.resume("nighty")])
      await expect(call).rejects.toThrow('did you mean "nightly"?');
    await expect(schedules.runNow("other")).rejects.toBeInstanceOf(UnknownScheduleError);
  });
});

const options = ({ timeZone, queue, priority, payload }: ScheduleView) => ({
  cron: "30 2 * * *",
  timeZone,
  queue,
  priority,
  payload,
});

describe("a schedule of the code", () => {
  const quiet = (kind: string) => scheduled(kind, { cron: NEVER_SOON });
  let warned: unknown[][];
  beforeEach(() => {
    warned = [];
    for (const level of ["warn", "log"] as const)
      jest
        .spyOn(Logger.prototype, level)
        .mockImplementation((...line: unknown[]) => void warned.push(line));
  });
  afterEach(() => jest.restoreAllMocks());

  it("is changed there only, but paused and run by calls", async () => {
    const app = await bench.worker([quiet("mine")], { service: "shop" });
    const { schedules } = app.get(JobQueue);
    await until(async () => (await schedules.get("mine")) !== null);
    expect((await schedules.get("mine"))!.service).toBe("shop");
    await expect(
      schedules.upsert("mine", "mine", { cron: EACH_SECOND, queue: "elsewhere" }),
    ).rejects.toBeInstanceOf(ScheduleDeclaredError);
    expect((await app.get(JobQueue).queues.list()).map(({ name }) => name)).toEqual(["default"]);
    await expect(schedules.remove("mine")).rejects.toBeInstanceOf(ScheduleDeclaredError);
    expect((await schedules.get("mine"))!.cron).toBe(`0 ${NEVER_SOON}`);
    await schedules.pause("mine", { why: "not now" });
    await bench.closeApps();
    // Deployed again, with another timetable: it stays paused.
    await bench.worker([scheduled("mine", { cron: "@daily" })], { service: "shop" });
    const other = await bench.producer();
    await until(async () => (await other.schedules.get("mine"))!.cron === "0 0 0 * * *");
    expect((await other.schedules.get("mine"))!.paused).toMatchObject({ why: "not now" });
  });

  it("whose decorator is gone is told of, and retired later, by its own service only", async () => {
    await bench.worker([quiet("gone"), quiet("stays")], { service: "shop" });
    const jobs = await bench.producer();
    const has = async () => (await jobs.schedules.list()).map(({ name }) => name);
    await until(async () => (await has()).length === 2);
    await bench.closeApps();
    const { schedules } = await bench.producer();
    await age("gone", "6 minutes");
    await age("stays", "6 minutes");
    await bench.worker([quiet("strange")], { service: "other" });
    await until(async () => (await schedules.list()).length === 3);
    expect((await schedules.get("gone"))!.orphanedAt).toBeNull();

    await bench.worker([quiet("stays")], { service: "shop" });
    await until(async () => (await schedules.get("gone"))!.orphanedAt, { what: "it is found" });
    await until(() =>
      warned.some(
        ([line, about]) =>
          /not declared any more/.test(String(line)) &&
          (about as { schedule: string }).schedule === "gone",
      ),
    );
    expect(await schedules.get("gone")).toMatchObject({ retiredAt: null });
    expect(await schedules.get("stays")).toMatchObject({ orphanedAt: null, retiredAt: null });

    await age("gone", "11 minutes");
    await bench.worker([quiet("stays")], { service: "shop" });
    await until(async () => (await schedules.get("gone"))!.retiredAt, { what: "it is retired" });
    expect(await bench.sql("select due_at from jobs.schedule where name = 'gone'")).toEqual([
      { due_at: null },
    ]);
    // Rolled back: it is there again.
    await bench.worker([quiet("gone"), quiet("stays")], { service: "shop" });
    await until(async () => (await schedules.get("gone"))!.retiredAt === null);
    expect((await schedules.get("gone"))!.nextAt!.getTime()).toBeGreaterThan(Date.now());
  });
});

describe("on a schema of the release before", () => {
  it("jobs run, schedules wait, and are there soon after it is migrated", async () => {
    await bench.close();
    bench = await Bench.open({ migrated: false });
    const session = bench.session();
    await session.transaction((run) => applyWithin({ run }, bench.schema, 2));
    const warned = jest.spyOn(Logger.prototype, "warn").mockImplementation(() => undefined);
    try {
      const app = await bench.worker([
        scheduled("later", { cron: EACH_SECOND }),
        handler("now", () => "ran"),
      ]);
      const jobs = app.get(JobQueue);
      const { id } = await jobs.enqueue("now");
      await until(async () => (await bench.state(id)) === "succeeded");
      await expect(jobs.schedules.list()).rejects.toMatchObject({ code: "SCHEMA_NOT_READY" });
      await until(() => warned.mock.calls.some(([line]) => /newer schema/.test(String(line))));
      await bench.migrate();
      await until(async () => (await ticks("later")).length >= 2, {
        timeout: 40_000,
        what: "it is declared at the next beat",
      });
    } finally {
      warned.mockRestore();
    }
  });
});

describe("for a role that may not see to them", () => {
  it("jobs run as before, and schedules as soon as it is granted", async () => {
    const role = await Role.create(bench);
    const warned = jest.spyOn(Logger.prototype, "warn").mockImplementation(() => undefined);
    try {
      await role.grantAll();
      await bench.sql(`revoke all on jobs.schedule from ${role.name}`);
      // Without hints it is looks that find jobs: they must not fail for what they may not read.
      const app = await bench.worker(
        [scheduled("later", { cron: EACH_SECOND }), handler("now", () => "ran")],
        {},
        { connection: { url: role.url }, notify: false },
      );
      const { id } = await app.get(JobQueue).enqueue("now");
      await until(async () => (await bench.state(id)) === "succeeded");
      await until(() => warned.mock.calls.some(([line]) => /lacks a right/.test(String(line))));
      await role.grant("all on jobs.schedule");
      await until(async () => (await ticks("later")).length >= 2, {
        timeout: 40_000,
        what: "it is declared at the next beat",
      });
    } finally {
      warned.mockRestore();
      await bench.close();
      await role.drop();
      bench = await Bench.open();
    }
  });
});

describe("what cannot be seen to", () => {
  it("is told of, left alone, and in nobody's way", async () => {
    const failed = jest.spyOn(Logger.prototype, "error").mockImplementation(() => undefined);
    try {
      const app = await bench.worker([handler("report", () => undefined)]);
      const { schedules } = app.get(JobQueue);
      await schedules.upsert("newer", "report", { cron: EACH_SECOND });
      // As a newer release may write it.
      await bench.sql(
        "update jobs.schedule set cron = '@fortnightly', next_at = now() where name = 'newer'",
      );
      await schedules.upsert("known", "report", { cron: EACH_SECOND });
      await until(async () => (await ticks("known")).length >= 4, {
        what: "the other one goes on",
      });
      const told = failed.mock.calls.filter(([line]) => /cannot be seen to/.test(String(line)));
      expect(told).toHaveLength(1);
      expect(told[0]![1]).toMatchObject({ schedule: "newer" });
    } finally {
      failed.mockRestore();
    }
  });
});

describe("bad input", () => {
  it("fails the boot, all problems in one message", async () => {
    const boot = bench.worker([
      scheduled("a", { cron: "61 * * * *", timeZone: "Europe/Berlim", overlap: "skipp" as never }),
      scheduled(defineJob("b", { payload: z.object({ day: z.string() }) }), { cron: "@daily" }),
      scheduled("c", {} as never),
    ]);
    const error = await boot.then(
      () => undefined,
      (thrown: unknown) => thrown as OptionsError,
    );
    expect(error).toBeInstanceOf(OptionsError);
    for (const part of [
      "minute: expected",
      "did you mean 'Europe/Berlin'?",
      "did you mean 'skip'?",
      "Scheduled.run: payload: ",
      "cron: expected a cron expression",
    ])
      expect(error!.message).toContain(part);
  });

  it.each([
    [{ cron: "* * * *" }, "found 4"],
    [{ cron: "0 0 30 2 *" }, "which never comes"],
    [{ cron: "0 0 13 * 5" }, "day of month and day of week"],
    [{ cron: "@fortnightly" }, "expected one of @yearly"],
    [{ cron: "@daily", timeZone: "Mars/Olympus" }, "the name of a time zone"],
    [{ cron: "@daily", timeZone: "+02:00" }, "the name of a time zone"],
    [{ cron: "@daily", misfire: "alll" }, "did you mean 'all'?"],
    [{ cron: "@daily", croon: 1 }, "did you mean cron?"],
    [{ cron: "@daily", attempts: -1 }, "an integer 1..1000"],
    [{ cron: "@daily", timeout: "soon" }, "timeout"],
    [null, "expected an object"],
  ])("is refused with what was expected, and nothing is made: %j", async (bad, expected) => {
    const { schedules } = await bench.producer();
    await schedules.list();
    await expect(schedules.upsert("x", "x", { cron: "bad" })).rejects.toBeInstanceOf(OptionsError);
    const refused = async () => {
      const from = performance.now();
      const error = await schedules.upsert("x", "x", bad as never).then(
        () => undefined,
        (thrown: unknown) => thrown as OptionsError,
      );
      return { error, ms: performance.now() - from };
    };
    const { error } = await refused();
    expect(error).toBeInstanceOf(OptionsError);
    expect(error!.message).toContain(expected);
    const times: number[] = [];
    for (let n = 0; n < 10; n++) times.push((await refused()).ms);
    expect(Math.min(...times)).toBeLessThan(5);
    expect(await bench.sql("select from jobs.schedule")).toHaveLength(0);
  });
});
