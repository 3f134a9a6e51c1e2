import type { Session } from "../../libs/jobs/src/pg/session.js";
import { newest, runOnce } from "../../libs/jobs/src/store/schedules/control.js";
import { declare } from "../../libs/jobs/src/store/schedules/declare.js";
import { type DueSchedule, due, fire } from "../../libs/jobs/src/store/schedules/fire.js";
import { keep } from "../../libs/jobs/src/store/schedules/keep.js";
import { type ScheduleView, list } from "../../libs/jobs/src/store/schedules/schedule.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";

let bench: Bench;
let hands: Hands;
let session: Session;
beforeEach(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  session = bench.session("front");
});
afterEach(async () => await bench.close());

const HOUR = 3_600_000;
let ids = 0;
const freshId = () => String(9_000_000 + ++ids);

/** Declares the schedule "s"; its first tick is an hour ahead. */
const declared = async (
  over: Partial<Parameters<typeof declare>[1]> = {},
  next = new Date(Date.now() + HOUR),
) =>
  await declare(
    session,
    {
      name: "s",
      queueId: hands.queueId,
      lane: hands.lane,
      kind: "work",
      cron: "0 0 * * * *",
      timeZone: "UTC",
      overlap: "skip",
      misfire: "one",
      attempts: null,
      timeoutMs: null,
      payload: "{}",
      service: null,
      ...over,
    },
    next,
  );

/** Its tick has come; answers how it was seen. */
async function come(by = "61 minutes"): Promise<DueSchedule> {
  await bench.sql(
    "update jobs.schedule set next_at = next_at - $1::interval, last_at = last_at - $1::interval",
    [by],
  );
  const [seen] = await due(session);
  return seen!;
}

const firing = (seen: DueSchedule, ids_: string[] = [freshId()]) => ({
  ticks: ids_.map((id, index) => ({ at: seen.tick + index * 1_000, id })),
  last: seen.tick + (ids_.length - 1) * 1_000,
  next: seen.tick + HOUR,
});

const jobs = async () =>
  (await bench.sql<{ id: string }>("select id from jobs.job order by id")).map(({ id }) => id);

describe("a tick", () => {
  it("is had by one of many that see it at once", async () => {
    await declared();
    const seen = await come();
    const sessions = Array.from({ length: 8 }, () => bench.session("front"));
    const answers = await Promise.all(sessions.map((one) => fire(one, seen, firing(seen))));
    expect(answers.filter((one) => one !== undefined)).toHaveLength(1);
    expect(await jobs()).toHaveLength(1);
    expect(await due(session)).toEqual([]);
  });

  it("is not had again, though the answer was lost and it is sent once more", async () => {
    await declared();
    const seen = await come();
    const once = firing(seen);
    expect(await fire(session, seen, once)).toEqual([once.ticks[0]!.id]);
    expect(await fire(session, seen, once)).toBeUndefined();
    expect(await jobs()).toHaveLength(1);
  });

  it("nor when the server's clock went back behind one that was seen to", async () => {
    await declared({ overlap: "queue" });
    const seen = await come();
    expect(await fire(session, seen, firing(seen))).toHaveLength(1);
    await bench.sql("update jobs.schedule set next_at = last_at");
    const [again] = await due(session);
    expect(await fire(session, again!, firing(again!))).toEqual([]);
    expect(await jobs()).toHaveLength(1);
    expect(await due(session)).toEqual([]);
  });

  it("waits for nobody: one whose row is locked is left to him who has it", async () => {
    await declared();
    const seen = await come();
    const other = await bench.client();
    await other.query("begin");
    await other.query(`select from ${bench.schema}.schedule for update`);
    expect(await fire(session, seen, firing(seen))).toBeUndefined();
    await other.query("rollback");
    expect(await fire(session, seen, firing(seen))).toHaveLength(1);
  });

  it("has no job beside one that is not over; several that wait are one then", async () => {
    await declared();
    const seen = await come();
    const [a, b] = [freshId(), freshId()];
    expect(await fire(session, seen, firing(seen, [a, b]))).toEqual([a]);
    const next = await come("121 minutes");
    expect(await fire(session, next, firing(next))).toEqual([]);
    await bench.sql("delete from jobs.job");
    const third = await come("121 minutes");
    expect(third.lastJob).toBe(a);
    expect(await fire(session, third, firing(third))).toHaveLength(1);
  });

  it("knows the numbers of its last jobs to the last digit", async () => {
    await declared();
    const number = "1152921504606846977";
    await bench.sql("update jobs.schedule set last_job = $1", [number]);
    const [{ lastJob, lastRuns }] = (await list(session, true)) as [ScheduleView];
    expect(lastRuns).toEqual([{ id: lastJob, state: null }]);
    expect(lastJob).toContain(number);
  });

  it("knows its last five jobs and where they are, and none of another queue", async () => {
    await declared();
    const runs = async () => (await list(session, true)).map(({ lastRuns }) => lastRuns)[0]!;
    expect(await runs()).toEqual([]);
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) {
      await bench.sql("delete from jobs.job");
      const seen = await come("121 minutes");
      ids.unshift((await fire(session, seen, firing(seen)))![0]!);
    }
    const known = (id: string) => expect.stringMatching(new RegExp(`^\\d+-${id}$`));
    expect(await runs()).toEqual([
      { id: known(ids[0]!), state: "queued" },
      ...ids.slice(1, 5).map((id) => ({ id: known(id), state: null })),
    ]);
    await bench.sql("insert into jobs.queue (name) values ('elsewhere')");
    await bench.sql(
      "update jobs.schedule set queue_id = (select id from jobs.queue where name = 'elsewhere')",
    );
    const [row] = await bench.sql("select recent_jobs from jobs.schedule");
    expect(row).toEqual({ recent_jobs: [] });
  });

  it("is seen to with the newest job as it was seen, and so never beside one that was just run", async () => {
    await declared();
    const seen = await come();
    expect(await runOnce(session, "s", null, freshId())).toBe(true);
    expect(await fire(session, seen, firing(seen))).toBeUndefined();
    const [again] = await due(session);
    expect(await fire(session, again!, firing(again!))).toEqual([]);
    expect(await jobs()).toHaveLength(1);
  });

  it("set by hand to the microsecond is had too", async () => {
    await declared();
    await bench.sql("update jobs.schedule set next_at = now() - interval '1.000123 s'");
    const [seen] = await due(session);
    expect(await fire(session, seen!, firing(seen!))).toHaveLength(1);
  });
});

describe("a declaration", () => {
  it("whose first tick is over by now is refused", async () => {
    const late = new Date(Date.now() - 1_000);
    expect(await declared({}, late)).toEqual({ answer: "late", before: undefined });
    expect(await bench.sql("select from jobs.schedule")).toEqual([]);
    expect(await declared()).toEqual({ answer: "declared", before: undefined });
    expect(await declared({ service: "shop" })).toEqual({ answer: "declared", before: null });
    expect(await declared({ service: "other" })).toEqual({ answer: "declared", before: "shop" });
    expect(await declared({ service: "other" }, late)).toMatchObject({ answer: "late" });
    expect(await declared()).toEqual({ answer: "refused", before: "other" });
  });

  it("keeps the tick that was foreseen, unless the timetable is another", async () => {
    const [first, later] = [new Date(Date.now() + HOUR), new Date(Date.now() + 2 * HOUR)];
    const next = async () =>
      (await bench.sql<{ next_at: Date }>("select next_at from jobs.schedule"))[0]!.next_at;
    await declared({}, first);
    await declared({ payload: '{"a":1}' }, later);
    expect(await next()).toEqual(first);
    await declared({ cron: "0 0 1 * * *" }, later);
    expect(await next()).toEqual(later);
    await declared({ cron: "0 0 1 * * *", timeZone: "Asia/Tokyo" }, first);
    expect(await next()).toEqual(first);
  });
});

describe("who declares what", () => {
  const aged = async (by: string) =>
    await bench.sql(
      "update jobs.schedule set declared_at = declared_at - $1::interval, orphaned_at = orphaned_at - $1::interval",
      [by],
    );

  it("is said once a minute; what nobody says is found, and retired, once each", async () => {
    await declared({ service: "shop" });
    expect(await keep(session, "shop", [])).toEqual([]);
    await aged("4 minutes");
    expect(await keep(session, "shop", ["s"])).toEqual([]);
    await aged("4 minutes");
    expect(await keep(session, "shop", [])).toEqual([]);
    await aged("2 minutes");
    expect(await keep(session, "other", [])).toEqual([]);
    expect(await keep(session, "shop", [])).toEqual([{ name: "s", retired: false }]);
    expect(await keep(session, "shop", [])).toEqual([]);
    await aged("11 minutes");
    expect(await keep(session, "shop", [])).toEqual([{ name: "s", retired: true }]);
    expect(await keep(session, "shop", [])).toEqual([]);
    await bench.sql("update jobs.schedule set next_at = now() - interval '1 minute'");
    expect(await due(session)).toEqual([]);
  });

  it("one that another service declares still is none, whoever did it last", async () => {
    await declared({ service: "old" });
    await aged("6 minutes");
    expect(await keep(session, "new", ["s"])).toEqual([]);
    expect(await keep(session, "old", [])).toEqual([]);
  });

  it("an orphan that is declared again is none", async () => {
    await declared({ service: "shop" });
    await aged("6 minutes");
    expect(await keep(session, "shop", [])).toHaveLength(1);
    expect(await keep(session, "shop", ["s"])).toEqual([]);
    await aged("11 minutes");
    expect(await keep(session, "shop", ["s"])).toEqual([]);
    expect(await bench.sql("select orphaned_at, retired_at from jobs.schedule")).toEqual([
      { orphaned_at: null, retired_at: null },
    ]);
  });

  it("what a call has made is nobody's to retire", async () => {
    await declared();
    await aged("1 day");
    expect(await keep(session, "shop", [])).toEqual([]);
    expect(await newest(session, "s")).toMatchObject({ id: null, inTheWay: false });
  });
});
