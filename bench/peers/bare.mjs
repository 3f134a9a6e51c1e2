// Our own statements on our own schema with the history kept, and no library around them: what the whole path of a
// Nest app is held against.
import pg from "pg";
import { Database } from "../../libs/jobs/dist/pg/database.js";
import { reportError } from "../../libs/jobs/dist/job/error-report.js";
import { JobIds } from "../../libs/jobs/dist/store/queues/ids.js";
import { ensureLane, ensureQueue } from "../../libs/jobs/dist/store/queues/lanes.js";
import { claim } from "../../libs/jobs/dist/store/transitions/claim.js";
import { enqueue } from "../../libs/jobs/dist/store/transitions/enqueue.js";
import { retry } from "../../libs/jobs/dist/store/transitions/retry.js";
import { succeed } from "../../libs/jobs/dist/store/transitions/succeed.js";
import { register } from "../../libs/jobs/dist/store/workers/workers.js";
import { newJob } from "../../tools/new-job.mjs";
import { Cursor } from "../../libs/jobs/dist/worker/cursor.js";
import { open as openOurs } from "./ours.mjs";
import { coalesced } from "./coalesced.mjs";
import { InTurn } from "./in-turn.mjs";
import { Nudge } from "./nudge.mjs";
import { Sql } from "./sql.mjs";
import { StatementLoop } from "./statement-loop.mjs";

/** With which the loop was measured when the bound was set (117k to 127k jobs/s); by 2,000 it drains a third more. */
const BATCH = 500;
const RETRIES = 100;

export function open({ url }) {
  const ours = openOurs({ url });
  const sql = new Sql(url);
  const database = new Database({ connectionString: url }, "jobs", 10);
  const ids = new JobIds();
  let address;
  let producers;
  let nudge;
  let addOne;
  let loop;

  /** Finds queue and lane; answers the session that it did so on. */
  const locate = async () => {
    const front = database.open("front");
    const { id: queueId, version } = await ensureQueue(front, "bench");
    const { lane } = await ensureLane(front, queueId, "bench", 0);
    address = { queue: "bench", queueId, version, lane, kind: "bench" };
    return front;
  };
  const insert = async (payloads) => {
    await producers.use(async (session) => {
      const fresh = await ids.take(session, payloads.length);
      const jobs = payloads.map((payload, index) =>
        newJob(fresh[index], address, JSON.stringify(payload)),
      );
      await enqueue(session, address.queueId, jobs);
    });
    nudge.give();
  };

  return {
    install: ours.install,
    produce: async () => {
      producers = new InTurn([await locate(), database.open("front")]);
      nudge = new Nudge(() => sql.run("notify bare"));
      addOne = coalesced(insert);
    },
    enqueue: async (payload) => await addOne(payload),
    enqueueMany: insert,

    work: async (handle) => {
      const front = await locate();
      const [claims, settles] = [database.open("claim"), database.open("settle")];
      const worker = await register(front, {
        host: "bench",
        pid: process.pid,
        kinds: {},
        slots: BATCH,
      });
      loop = new StatementLoop({
        handle,
        payloadOf: ({ payload }) => JSON.parse(payload),
        claim: claimer(claims, worker, address),
        settle: settler(settles, worker, address),
      });
      const listener = new pg.Client(url);
      await listener.connect();
      listener.on("notification", () => loop.wake());
      await listener.query("listen bare");
      loop.start();
      loop.listener = listener;
    },

    left: ours.left,
    tally: ours.tally,
    close: async () => {
      await loop?.close();
      await loop?.listener.end();
      await database.close();
      await ours.close();
      await sql.close();
    },
  };
}

function claimer(session, worker, { queueId, version, lane }) {
  const cursor = new Cursor();
  return async () => {
    const from = performance.now();
    const taken = await claim(session, {
      queueId,
      version,
      lanes: cursor.requests([{ lane, room: BATCH }], from),
      room: BATCH,
      leaseMs: 30_000,
      worker,
      takeOverUntil: "-infinity",
    });
    const to = performance.now();
    cursor.learn(taken, taken.length === BATCH, to - from, to);
    return taken;
  };
}

function settler(session, worker, { queueId }) {
  return async ({ succeeded, failed }) => {
    if (succeeded.length > 0)
      await succeed(
        session,
        queueId,
        worker,
        succeeded.map(({ id, attempt }) => ({ id, attempt, result: null })),
      );
    for (let from = 0; from < failed.length; from += RETRIES)
      await retry(
        session,
        queueId,
        worker,
        failed.slice(from, from + RETRIES).map(({ job, error }) => ({
          id: job.id,
          attempt: job.attempt,
          delayMs: 0,
          error: JSON.stringify(reportError(error)),
        })),
      );
    return failed.length > 0;
  };
}
