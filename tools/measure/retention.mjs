import { archiveDead, pruneDeadLetters } from "../../libs/jobs/dist/store/upkeep/dead-letters.js";
import { dropDay } from "../../libs/jobs/dist/store/upkeep/partitions.js";
import { claim } from "../../libs/jobs/dist/store/transitions/claim.js";
import { enqueue } from "../../libs/jobs/dist/store/transitions/enqueue.js";
import { succeed } from "../../libs/jobs/dist/store/transitions/succeed.js";
import { median, ratio } from "./ground.mjs";

const RUNS = 3;
const FINISHED = 100_000;
const LETTERS = 10_000;
const DAY = "20200102";
const SPAN = ["2020-01-02Z", "2020-01-03Z"];

/** Ways in which a day goes. The rows are deleted as people do it, and what they leave is vacuumed. */
const WAYS = {
  "dropped by the owner (detached first)": (ground) => dropDay(ground.front, day(true)),
  "dropped by another role": (ground) => dropDay(ground.front, day(false)),
  "deleted by SQL": (ground) => deleteRows(ground),
  "deleted by SQL, and vacuumed": async (ground) => {
    await deleteRows(ground);
    await ground.admin.query(`vacuum jobs.done_${DAY}`);
  },
};

/** What it takes to let go of finished jobs and dead letters, and what others see of it. */
export async function measureRetention(ground) {
  const rows = [];
  const waysSeen = new Map();
  const see = (name, seen) => waysSeen.set(name, [...(waysSeen.get(name) ?? []), seen]);
  for (let run = 0; run < RUNS; run++) {
    see("nothing", { waits: await underTraffic(ground, async () => {}) });
    for (const [name, way] of Object.entries(WAYS)) {
      await finishedDay(ground);
      const quiet = await costs(ground, () => way(ground));
      await removeDay(ground);
      await finishedDay(ground);
      const waits = await underTraffic(ground, () => way(ground));
      await removeDay(ground);
      see(name, { ...quiet, waits });
    }
  }
  const of = (name, key) => median(waysSeen.get(name).map((seen) => seen[key]));
  const longest = (name, what) => median(waysSeen.get(name).map(({ waits }) => waits[what]));
  const [first] = Object.keys(WAYS);
  for (const name of ["nothing", ...Object.keys(WAYS)]) {
    const alone = name === "nothing";
    rows.push([
      alone ? "(the same traffic alone)" : `${FINISHED / 1_000}k finished jobs, ${name}`,
      alone ? "" : `${of(name, "ms").toFixed(0)} ms (${ratio(of(name, "ms"), of(first, "ms"))} ×)`,
      alone ? "" : size(of(name, "bytes")),
      `${longest(name, "enqueue").toFixed(0)} ms`,
      `${longest(name, "claim").toFixed(0)} ms`,
    ]);
  }
  for (const [name, { ms, bytes }] of Object.entries(await letters(ground)))
    rows.push([`1,000 dead letters, ${name}`, `${ms.toFixed(0)} ms`, size(bytes), "", ""]);
  return {
    title: "Retention",
    why: `Medians of ${RUNS}, in turn; time and WAL with nothing else going on, then the same again beside one connection that enqueues 10 jobs at a time and one that claims and settles them: the longest that one of its statements took.`,
    header: ["what", "time", "WAL", "longest enqueue beside it", "longest claim or settle"],
    rows,
  };
}

const size = (bytes) =>
  bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
const day = (owned) => ({
  parent: "done",
  name: `done_${DAY}`,
  attached: true,
  pending: false,
  owned,
});

async function deleteRows(ground) {
  await ground.admin.query(
    "delete from jobs.done where finished_at >= $1 and finished_at < $2",
    SPAN,
  );
}

async function removeDay(ground) {
  await ground.admin.query(`drop table if exists jobs.done_${DAY}`);
  await ground.clear();
}

/** A day that is over, with its jobs, as the worker's settles have left it. */
async function finishedDay(ground) {
  const table = `jobs.done_${DAY}`;
  await ground.admin.query(`create table ${table} (like jobs.done including all);
    alter table ${table} replica identity full;
    alter table jobs.done attach partition ${table} for values from ('${SPAN[0]}') to ('${SPAN[1]}')`);
  await ground.admin.query(
    `insert into jobs.done (id, finished_at, created_at, run_at, started_at, worker, attempt, queue_id, failures, lane,
       generation, state, kind, payload)
     select n, at, at, at, at, $1, 1, $2, 0, $3, 0, 1, 'noop', $4
     from generate_series(1, $5::integer) n, lateral (select $6::timestamptz + n * interval '0.8 s') d (at)`,
    [
      ground.worker,
      ground.queueId,
      ground.lane,
      (await ground.jobs(1))[0].payload,
      FINISHED,
      SPAN[0],
    ],
  );
  await ground.admin.query(`vacuum analyze ${table}`);
  await ground.admin.query("checkpoint");
}

async function costs(ground, work) {
  let ms;
  const bytes = await ground.wal(async () => {
    const from = performance.now();
    await work();
    ms = performance.now() - from;
  });
  return { ms, bytes };
}

/** The longest statement of each kind while `work` is under way, and 0.3 s before and after it. */
async function underTraffic(ground, work) {
  await ground.fill(1_000);
  const [enqueues, claims] = [ground.database.open("front"), ground.database.open("claim")];
  const longest = { enqueue: 0, claim: 0 };
  let going = true;
  const timed = async (what, statement) => {
    const from = performance.now();
    const result = await statement();
    longest[what] = Math.max(longest[what], performance.now() - from);
    return result;
  };
  const jobs = await ground.jobs(20_000);
  const enqueuing = async () => {
    for (let at = 0; going; at += 10)
      await timed("enqueue", () =>
        enqueue(enqueues, ground.queueId, jobs.slice(at % 20_000, (at % 20_000) + 10)),
      );
  };
  const claiming = async () => {
    while (going) {
      const taken = await timed("claim", () => claim(claims, claimOf(ground)));
      const settled = taken.map(({ id, attempt }) => ({ id, attempt, result: null }));
      if (settled.length > 0)
        await timed("claim", () => succeed(claims, ground.queueId, ground.worker, settled));
    }
  };
  const traffic = Promise.all([enqueuing(), claiming()]);
  await pause(100);
  Object.assign(longest, { enqueue: 0, claim: 0 });
  await pause(300);
  await work();
  await pause(300);
  going = false;
  await traffic;
  await ground.database.release(enqueues);
  await ground.database.release(claims);
  return longest;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const claimOf = (ground) => ({
  queueId: ground.queueId,
  version: ground.version,
  lanes: [{ lane: ground.lane, room: 10, at: "-infinity", id: "0", backMs: 0 }],
  room: 10,
  leaseMs: 30_000,
  worker: ground.worker,
  takeOverUntil: "-infinity",
});

/** Archived, and pruned from there: batch by batch, as the chore does it. */
async function letters(ground) {
  const steps = {
    archived: { age: "archive_dead", step: archiveDead },
    "pruned from the archive": { age: "prune_dead", step: pruneDeadLetters },
  };
  await ground.clear();
  await ground.admin.query(
    `insert into jobs.dead (id, finished_at, created_at, run_at, started_at, worker, attempt, queue_id, failures,
       crashes, lane, generation, kind, payload, reason, error, errors)
     select n, at, at, at, at, $1, 5, $2, 5, 0, $3, 0, 'noop', $4, 'exhausted', $5, jsonb_build_array($5::jsonb)
     from generate_series(1, $6::integer) n, lateral (select now() - interval '40 days' + n * interval '1 s') d (at)`,
    [
      ground.worker,
      ground.queueId,
      ground.lane,
      (await ground.jobs(1))[0].payload,
      JSON.stringify({ name: "Error", message: "no answer", stack: "at line\n".repeat(40) }),
      LETTERS,
    ],
  );
  await ground.admin.query("vacuum analyze jobs.dead");
  const found = {};
  for (const [name, { age, step }] of Object.entries(steps)) {
    await ground.admin.query(`update jobs.queue set ${age} = '30 days' where id = $1`, [
      ground.queueId,
    ]);
    const { ms, bytes } = await costs(ground, async () => {
      while (await step(ground.front, ground.queueId));
    });
    found[name] = { ms: ms / (LETTERS / 1_000), bytes: bytes / (LETTERS / 1_000) };
  }
  await ground.admin.query(
    "update jobs.queue set archive_dead = null, prune_dead = null where id = $1",
    [ground.queueId],
  );
  return found;
}
