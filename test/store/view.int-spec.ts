import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import { requeue } from "../../libs/jobs/src/store/transitions/requeue.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { skip } from "../../libs/jobs/src/store/transitions/skip.js";
import { snooze } from "../../libs/jobs/src/store/transitions/snooze.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";

// The view job_status: the same columns, and the truth, for a job in every state.

let bench: Bench;
let hands: Hands;
let worker: number;
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench, "mail", "send", 7);
  worker = await hands.worker(4711);
});
afterAll(async () => await bench.close());

const error = JSON.stringify({ name: "Error", message: "boom" });

/** From a claimed job (attempt 1) to the state, by our own statements. */
const STATES: Record<string, (id: string) => Promise<unknown>> = {
  queued: async (id) => await hand(id, { started: false, quarantine: false }),
  running: async () => undefined,
  "running, lease expired": async (id) => await hands.expire(id),
  "running, taken over": async (id) => {
    await hands.expire(id);
    await hands.claim(worker, { takeOver: true });
  },
  "to be retried": async (id) =>
    await retry(hands.session, hands.queueId, worker, [
      { id, attempt: 1, delayMs: 3_600_000, error },
    ]),
  snoozed: async (id) =>
    await snooze(hands.session, hands.queueId, worker, [{ id, attempt: 1, delayMs: 3_600_000 }]),
  quarantined: async (id) => await hand(id, { started: false, quarantine: true }),
  succeeded: async (id) =>
    await succeed(hands.session, hands.queueId, worker, [
      { id, attempt: 1, result: '{"ok":true}' },
    ]),
  "succeeded without a result": async (id) =>
    await succeed(hands.session, hands.queueId, worker, [{ id, attempt: 1, result: null }]),
  skipped: async (id) =>
    await skip(hands.session, hands.queueId, worker, [
      { id, attempt: 1, result: '{"reason":"r"}' },
    ]),
  dead: async (id) =>
    await bury(hands.session, hands.queueId, worker, [
      { id, attempt: 1, error, reason: "exhausted", failed: true },
    ]),
  requeued: async (id) => {
    await STATES.dead!(id);
    await requeue(hands.session, hands.queueId, id, null);
  },
};

const hand = async (id: string, how: { started: boolean; quarantine: boolean }) =>
  await handBack(hands.session, hands.queueId, worker, [{ id, attempt: 1, ...how }]);

const open = {
  state: "queued",
  worker: null,
  finished_at: null,
  result: null,
  failures: 0,
  last_error: null,
};
const busy = { ...open, state: "running", worker: "hands:4711" };
const over = { ...busy, finished_at: expect.any(Date) };

const EXPECTED: Record<string, Record<string, unknown>> = {
  queued: open,
  running: busy,
  "running, lease expired": { ...open, worker: "hands:4711" },
  "running, taken over": { ...busy, attempt: 2 },
  "to be retried": { ...open, failures: 1, last_error: "boom", future: true },
  snoozed: { ...open, future: true },
  quarantined: open,
  succeeded: { ...over, state: "succeeded", result: { ok: true } },
  "succeeded without a result": { ...over, state: "succeeded" },
  skipped: { ...over, state: "skipped", result: { reason: "r" } },
  dead: { ...over, state: "dead", failures: 1, last_error: "boom" },
  requeued: { ...open, started_at: null },
};

describe("job_status", () => {
  it.each(Object.keys(STATES))("shows a job that is %s", async (state) => {
    const at = new Date(Date.now() - 5_000);
    const id = await hands.add({ at, attempts: 3, key: `key ${state}`, payload: '{"to":"a"}' });
    await hands.claim(worker);
    await STATES[state]!(id);
    const [row] = await bench.sql(
      "select *, run_at > now() + interval '59 minutes' as future from jobs.job_status where number = $1",
      [id],
    );
    const requeued = state === "requeued";
    expect(row).toEqual({
      id: hands.named(id),
      kind: "send",
      queue: "mail",
      priority: 7,
      attempt: 1,
      attempts: 3,
      run_at: EXPECTED[state]!.future || requeued ? expect.any(Date) : at,
      created_at: expect.any(Date),
      started_at: expect.any(Date),
      key: `key ${state}`,
      payload: { to: "a" },
      queue_id: hands.queueId,
      number: id,
      future: false,
      ...EXPECTED[state],
    });
    const times = [row!.created_at, row!.started_at ?? row!.created_at, row!.finished_at].filter(
      Boolean,
    );
    expect(times.toSorted((a, b) => a - b)).toEqual(times);
    await bench.sql("truncate jobs.job");
  });

  it("shows a cancelled job, and null attempts when nobody said", async () => {
    const id = await hands.add();
    await bench.sql(
      `with mine as (delete from jobs.job where id = $1 returning *)
       insert into jobs.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, payload, state)
       select id, created_at, run_at, 0, queue_id, 0, lane, 1, kind, payload, 3 from mine`,
      [id],
    );
    const [row] = await bench.sql("select * from jobs.job_status where number = $1", [id]);
    expect(row).toMatchObject({ state: "cancelled", attempts: null, attempt: 0, started_at: null });
  });

  it("has its columns in the documented order and types", async () => {
    const columns = await bench.sql<{ name: string; type: string }>(
      `select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
       where attrelid = '${bench.schema}.job_status'::regclass and attnum > 0 order by attnum`,
    );
    expect(columns.map(({ name, type }) => `${name} ${type}`)).toEqual([
      "id text",
      "kind text",
      "queue text",
      "state text",
      "priority integer",
      "attempt integer",
      "failures integer",
      "attempts integer",
      "run_at timestamp with time zone",
      "created_at timestamp with time zone",
      "started_at timestamp with time zone",
      "finished_at timestamp with time zone",
      "key text",
      "worker text",
      "last_error text",
      "payload jsonb",
      "result jsonb",
      "queue_id integer",
      "number bigint",
    ]);
  });
});

it("takes the message out of the last error of a job alone, however many are kept", async () => {
  const [id] = await hands.addMany(1);
  await bench.sql("update jobs.job set failures = 20 where id = $1", [id]);
  // Too long for their rows, and nothing that could be compressed.
  await bench.sql(
    `insert into jobs.attempt_error (job_id, attempt, queue_id, generation, error)
     select $1, attempt, $2, 1, jsonb_build_object('message', 'boom ' || attempt, 'stack', (
       select string_agg(md5(attempt || ' ' || n), '') from generate_series(1, 3000) n))
     from generate_series(1, 20) attempt`,
    [id, hands.queueId],
  );
  const select = `select last_error from jobs.job_status where queue_id = ${hands.queueId} and number = ${id}`;
  const [row] = await bench.sql(select);
  expect(row).toEqual({ last_error: "boom 20" });
  const pages = async () => {
    const [plan] = await bench.sql<{ "QUERY PLAN": [{ Plan: Record<string, number> }] }>(
      `explain (analyze, buffers, format json) ${select}`,
    );
    const { Plan } = plan!["QUERY PLAN"][0];
    return Plan["Shared Hit Blocks"]! + Plan["Shared Read Blocks"]!;
  };
  await pages();
  expect(await pages()).toBeLessThan(100);
});
