import { spine } from "../../libs/jobs/dist/store/migrations/0001-spine.js";
import { claim } from "../../libs/jobs/dist/store/transitions/claim.js";
import { enqueue } from "../../libs/jobs/dist/store/transitions/enqueue.js";
import { retry } from "../../libs/jobs/dist/store/transitions/retry.js";
import { snooze } from "../../libs/jobs/dist/store/transitions/snooze.js";
import { succeed } from "../../libs/jobs/dist/store/transitions/succeed.js";
import { median, ratio } from "./ground.mjs";

const RUNS = 7;

/** The first one is what the release before does: its statements, its triggers. */
const MODES = {
  "no history at all": { mode: "none", writes: {}, before: true },
  none: { mode: "none", writes: { history: true } },
  "exceptions (default)": { mode: "exceptions", writes: { history: true } },
  full: { mode: "full", writes: { history: true, full: true } },
  "exceptions, keep: false": { mode: "exceptions", writes: { history: true, keep: false } },
};

const STEPS = {
  "enqueue, 1 each": { batch: 1, count: 1_500 },
  "enqueue, 1,000 each": { batch: 1_000, count: 20_000 },
  "claim and succeed, 1 each": { batch: 1, count: 1_500, settle: "succeed" },
  "claim and succeed, 100 each": { batch: 100, count: 20_000, settle: "succeed" },
  "claim and retry, 100 each": { batch: 100, count: 10_000, settle: "retry" },
  "claim and snooze, 100 each": { batch: 100, count: 10_000, settle: "snooze" },
};

const SETTLES = {
  succeed: [succeed, { result: null }],
  retry: [retry, { delayMs: 3_600_000, error: '{"name":"Error","message":"no answer"}' }],
  snooze: [snooze, { delayMs: 3_600_000 }],
};

/** What each mode of history costs a job, step by step. */
export async function measureHistory(ground) {
  const micros = new Map();
  const wal = new Map();
  for (let run = 0; run < RUNS; run++) {
    for (const [mode, how] of Object.entries(MODES)) {
      await setUp(ground, how);
      for (const [step, what] of Object.entries(STEPS)) {
        const bytes = await measured(ground, what, how.writes, (us) => add(micros, mode, step, us));
        add(wal, mode, step, bytes / what.count);
      }
    }
  }
  await setUp(ground, MODES["exceptions (default)"]);
  const cell = (mode, step) => {
    const us = median(micros.get(`${mode} ${step}`));
    const base = median(micros.get(`no history at all ${step}`));
    return `${us.toFixed(us < 100 ? 1 : 0)} µs (${ratio(us, base)} ×), ${Math.round(median(wal.get(`${mode} ${step}`)))} B`;
  };
  return {
    title: "History",
    why: "Time and WAL a job of each step, one statement after another on one connection, and the time against a schema and statements without any history. Median of the runs, modes in turn.",
    header: ["step", ...Object.keys(MODES)],
    rows: Object.keys(STEPS).map((step) => [
      step,
      ...Object.keys(MODES).map((mode) => cell(mode, step)),
    ]),
  };
}

function add(map, mode, step, value) {
  const name = `${mode} ${step}`;
  map.set(name, [...(map.get(name) ?? []), value]);
}

/** The mode of the queue, and for the first row the functions of its triggers as they were. */
async function setUp(ground, { mode, before = false }) {
  const now = (ground.functionsNow ??= await functions(ground));
  const then = spine.sql("jobs").match(/create function jobs\.count_\w+\(\)[^]*?end \$\$;/g);
  for (const text of before ? then : now)
    await ground.admin.query(text.replace(/^create function/, "create or replace function"));
  await ground.admin.query("update jobs.queue set history = $1", [mode]);
}

async function functions(ground) {
  const { rows } = await ground.admin.query(
    "select pg_get_functiondef(oid) as text from pg_proc where pronamespace = 'jobs'::regnamespace and proname ~ '^count_(in|done|dead_in)$'",
  );
  return rows.map(({ text }) => text);
}

async function measured(ground, { batch, count, settle }, writes, tell) {
  await ground.clear();
  await ground.admin.query("truncate jobs.event");
  const claims = ground.database.open("claim");
  const settles = ground.database.open("settle");
  const jobs = await ground.jobs(count);
  if (settle) {
    for (let at = 0; at < count; at += 5_000)
      await enqueue(ground.front, ground.queueId, jobs.slice(at, at + 5_000));
    await ground.analyse();
  }
  const bytes = await ground.wal(async () => {
    const from = performance.now();
    if (settle) await drain(ground, { claims, settles, count, batch, settle, writes });
    else
      for (let at = 0; at < count; at += batch)
        await enqueue(ground.front, ground.queueId, jobs.slice(at, at + batch));
    tell(((performance.now() - from) / count) * 1_000);
  });
  await ground.database.release(claims);
  await ground.database.release(settles);
  return bytes;
}

async function drain(ground, { claims, settles, count, batch, settle, writes }) {
  const [write, fields] = SETTLES[settle];
  let at = { at: "-infinity", id: "0" };
  for (let done = 0; done < count;) {
    const taken = await claim(
      claims,
      {
        queueId: ground.queueId,
        version: ground.version,
        lanes: [{ lane: ground.lane, room: batch, backMs: 0, ...at }],
        room: batch,
        leaseMs: 30_000,
        worker: ground.worker,
        takeOver: true,
      },
      writes,
    );
    const last = taken.at(-1);
    at = { at: last.runAt, id: last.id };
    const rows = taken.map(({ id, attempt }) => ({ id, attempt, ...fields }));
    await write(settles, ground.queueId, ground.worker, rows, writes);
    done += taken.length;
  }
}
