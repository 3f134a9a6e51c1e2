import { Database } from "../../libs/jobs/dist/pg/database.js";
import { enqueue } from "../../libs/jobs/dist/store/transitions/enqueue.js";
import { pgbouncer, startPgbouncer } from "../pgbouncer.mjs";
import { drain } from "./drain.mjs";
import { median, perSecond, rate, ratio } from "./ground.mjs";

const RUNS = 3;
const JOBS = 20_000;
const SINGLE = 1_500;

/** What it costs to send each statement with its settings, unnamed, through a transaction pooler. */
export async function measurePoolers(ground) {
  const section = {
    title: "Behind a transaction pooler",
    why: `The same statements straight to the server and through PgBouncer (transaction pool of 2 connections) on the same machine, in turn. Enqueue: jobs that are committed one after the other, or ${JOBS / 1_000}k in batches of 100. Drain: claim and settle of ${JOBS / 1_000}k no-op jobs.`,
    header: ["what", "straight", "through the pooler", "ratio"],
    rows: [],
  };
  if (!pgbouncer) return { ...section, rows: [["PgBouncer is not installed here", "", "", ""]] };
  const pooler = await startPgbouncer({ url: ground.url });
  const through = new Database({ connectionString: pooler.url() }, "jobs", 10);
  const ways = [ground.database, through];
  const loops = [
    ["enqueue, one by one", (database) => enqueueAll(ground, database, SINGLE, 1)],
    ["enqueue, batches of 100", (database) => enqueueAll(ground, database, JOBS, 100)],
    ["drain, batches of 10", (database) => drainAll(ground, database, 10)],
    ["drain, batches of 100", (database) => drainAll(ground, database, 100)],
    ["drain, batches of 500", (database) => drainAll(ground, database, 500)],
  ];
  try {
    for (const [what, loop] of loops) {
      const rates = [[], []];
      for (let run = 0; run < RUNS; run++)
        for (const [n, database] of ways.entries()) rates[n].push(await loop(database));
      const [straight, pooled] = rates.map(median);
      section.rows.push([
        what,
        perSecond(straight),
        perSecond(pooled),
        `${ratio(pooled, straight)} ×`,
      ]);
    }
  } finally {
    await through.close();
    await pooler.stop();
  }
  return section;
}

async function enqueueAll(ground, database, count, batch) {
  await ground.clear();
  const session = database.open("front");
  await enqueue(session, ground.queueId, await ground.jobs(batch));
  const parts = [];
  for (let left = count; left > 0; left -= batch) parts.push(await ground.jobs(batch));
  const result = await rate(count, async () => {
    for (const part of parts) await enqueue(session, ground.queueId, part);
  });
  await database.release(session);
  return result;
}

async function drainAll(ground, database, batch) {
  await ground.clear();
  await ground.fill(JOBS);
  await ground.analyse();
  const [claims, settles] = [database.open("claim"), database.open("settle")];
  const result = await rate(JOBS, () => drain(ground, { claims, settles, count: JOBS, batch }));
  await database.release(claims);
  await database.release(settles);
  return result;
}
