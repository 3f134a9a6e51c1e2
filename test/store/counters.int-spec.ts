import { JobInspector } from "nestjs-pg-jobs";
import { QUARANTINED } from "../../libs/jobs/src/store/queues/lanes.js";
import { rollUp } from "../../libs/jobs/src/store/upkeep/deltas.js";
import { cancel } from "../../libs/jobs/src/store/transitions/cancel.js";
import { deleteById } from "../../libs/jobs/src/store/transitions/delete.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import { requeue } from "../../libs/jobs/src/store/transitions/requeue.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { skip } from "../../libs/jobs/src/store/transitions/skip.js";
import { snooze } from "../../libs/jobs/src/store/transitions/snooze.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { Bench } from "../support/harness.js";
import { Hands, from } from "../support/hands.js";

// The counters are exact: whatever happens to jobs, they say what counting rows would say.

let bench: Bench;
let inspector: JobInspector;
beforeAll(async () => {
  bench = await Bench.open();
  inspector = (await bench.app([bench.root()])).get(JobInspector);
});
afterAll(async () => await bench.close());

const error = JSON.stringify({ name: "Error", message: "boom" });
const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;

/** By counting rows. */
const counted = async () =>
  await bench.sql<{ queue: string; kind: string; succeeded: number; skipped: number }>(
    `select queue, kind,
       count(*) filter (where state in ('queued', 'running'))::int as unfinished,
       count(*) filter (where state = 'succeeded')::int as succeeded,
       count(*) filter (where state = 'skipped')::int as skipped,
       count(*) filter (where state = 'cancelled')::int as cancelled,
       count(*) filter (where state = 'dead')::int as dead, 0 as archived, 0 as pruned, 0 as deleted
     from jobs.job_status group by queue, kind order by queue, kind`,
  );

async function step(hands: Hands, worker: number): Promise<void> {
  const { session, queueId } = hands;
  if (Math.random() < 0.5) await hands.addMany(1 + Math.floor(Math.random() * 5));
  const lanes = [from(hands.lane), from(hands.lane + QUARANTINED)];
  const claims = await hands.claim(worker, { room: 4, lanes });
  const verb = pick([succeed, skip, snooze, retry, bury, handBack, undefined]);
  const batch = claims.map((claim) => ({
    ...claim,
    result: "1",
    delayMs: 0,
    error,
    reason: "exhausted" as const,
    failed: true,
    started: true,
    quarantine: Math.random() < 0.3,
  }));
  if (batch.length > 0) await verb?.(session, queueId, worker, batch);
  const [dead] = await bench.sql<{ id: string }>(
    "select id from jobs.dead where queue_id = $1 limit 1",
    [queueId],
  );
  if (dead && Math.random() < 0.5) await requeue(session, queueId, dead.id, null);
  const [one] = await bench.sql<{ id: string }>(
    "select id from jobs.job where queue_id = $1 order by random() limit 1",
    [queueId],
  );
  if (one && Math.random() < 0.3) await cancel(session, queueId, one.id);
  const [gone] = await bench.sql<{ id: string }>(
    "select id from jobs.done where queue_id = $1 and state = 3 limit 1",
    [queueId],
  );
  if (gone && Math.random() < 0.2) await requeue(session, queueId, gone.id, null);
  const [done] = await bench.sql<{ id: string }>(
    "select id from jobs.done where queue_id = $1 order by random() limit 1",
    [queueId],
  );
  for (const unwanted of [dead, one, done])
    if (unwanted && Math.random() < 0.05) {
      const { answer, queue, kind } = await deleteById(session, queueId, unwanted.id);
      const of = `${queue} ${kind}`;
      if (answer === "deleted") deleted.set(of, (deleted.get(of) ?? 0) + 1);
    }
  if (Math.random() < 0.2) await rollUp(session);
}

/** By queue and kind. */
const deleted = new Map<string, number>();

describe("counters", () => {
  it("equal the rows after any walk, before and after a roll-up", async () => {
    const all = await Promise.all([
      Hands.open(bench, "a", "x"),
      Hands.open(bench, "a", "y"),
      Hands.open(bench, "b", "x", 5),
    ]);
    const workers = await Promise.all(all.map(async (hands) => await hands.worker()));
    await Promise.all(
      all.map(async (hands, n) => {
        for (let round = 0; round < 120; round++) await step(hands, workers[n]!);
      }),
    );
    const rows = (await counted()).map((row) => ({
      ...row,
      deleted: deleted.get(`${row.queue} ${row.kind}`) ?? 0,
    }));
    expect(rows.some((row) => row.deleted > 0)).toBe(true);
    expect(rows.reduce((sum, row) => sum + row.succeeded + row.skipped, 0)).toBeGreaterThan(50);
    expect(await inspector.counts()).toEqual(rows);
    await Promise.all(all.map(async ({ session }) => await rollUp(session)));
    expect(await bench.sql("select 1 from jobs.stat_delta")).toEqual([]);
    expect(await inspector.counts()).toEqual(rows);
  });

  it("are rolled up in batches, however many deltas there are", async () => {
    const hands = await Hands.open(bench, "many");
    await bench.sql(
      `insert into jobs.stat_delta (queue_id, lane, state, day, n)
       select $1, $2, n % 2 * 5, 'epoch', 1 from generate_series(1, 1050) n`,
      [hands.queueId, hands.lane],
    );
    const left = async () =>
      (await bench.sql<{ n: number }>("select count(*)::int as n from jobs.stat_delta"))[0]!.n;
    const steps: number[] = [];
    let before = await left();
    const run: Hands["session"]["run"] = async (...call) => {
      const rows = await hands.session.run(...call);
      const now = await left();
      steps.push(before - now);
      before = now;
      return rows;
    };
    await rollUp({ run }, 100);
    expect(await left()).toBe(0);
    expect(Math.max(...steps)).toBe(100);
    const found = (await inspector.counts()).find(({ queue }) => queue === "many");
    expect(found).toMatchObject({ unfinished: 525, pruned: 525 });
    await bench.sql("delete from jobs.stat where queue_id = $1", [hands.queueId]);
  });

  it("do not count what was rolled back", async () => {
    const hands = await Hands.open(bench, "c");
    const before = await inspector.counts();
    const client = await bench.client();
    await client.query("begin");
    await client.query(`select set_config('search_path', '${bench.schema}', true)`);
    await client.query(
      `insert into job (id, run_at, lane, queue_id, kind, payload)
       select n, now(), $1, $2, 'work', '{}' from generate_series(-9, -1) n`,
      [hands.lane, hands.queueId],
    );
    await client.query("rollback");
    client.release();
    expect(await inspector.counts()).toEqual(before);
  });
});
