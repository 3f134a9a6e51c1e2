import { PgBoss } from "pg-boss";
import { Sql } from "./sql.mjs";

// Big batches, several loops, fetching on while batches come back full. Woken by NOTIFY only where workers wait for jobs
// to come: it is opt-in there, and makes each insert dearer. Polls are as short as they may be, beside NOTIFY too.
const WORK = {
  batchSize: 2_000,
  localConcurrency: 4,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
  notifyPollingIntervalSeconds: 0.5,
};
/** One of many processes: a batch is as big as it has slots, and the server has 200 connections for all of them. */
const ofSlots = (slots) => ({ work: { ...WORK, batchSize: slots, localConcurrency: 1 }, max: 8 });
const QUEUE = { retryLimit: 2, retryDelay: 0 };
const POOL = 16;
/** At a pace that is too much for it calls line up for its pool: they shall be late, and not fail. */
const PATIENCE_MS = 60_000;

export function open({ url }) {
  const sql = new Sql(url);
  let boss;
  let begunAt;
  const start = async (options) => {
    boss = new PgBoss({
      connectionString: url,
      schedule: false,
      max: POOL,
      connectionTimeoutMillis: PATIENCE_MS,
      ...options,
    });
    boss.on("error", (error) => console.error(error));
    await boss.start();
  };
  const client = ({ query }) => ({ executeSql: query });

  return {
    install: async () => {
      await start({});
      await boss.createQueue("bench", QUEUE);
    },
    seeds: {
      scheduled: async (count) => {
        for (let done = 0; done < count; done += 1_000)
          await boss.insert(
            "bench",
            Array.from({ length: Math.min(1_000, count - done) }, () => ({
              data: { n: -1, text: "later" },
              startAfter: 86_400,
            })),
          );
      },
    },

    produce: async ({ awaited }) => {
      await start({ migrate: false, supervise: false });
      if (awaited) await boss.updateQueue("bench", { notify: true });
      [{ now: begunAt }] = await sql.run("select now()::text");
    },
    enqueue: async (payload) => await boss.send("bench", payload),
    enqueueMany: async (payloads) =>
      await boss.insert(
        "bench",
        payloads.map((data) => ({ data })),
      ),
    enqueueWithin: async (connection, payload) =>
      await boss.send("bench", payload, {
        db: client({ query: async (text, values) => await connection.query(text, values) }),
      }),

    work: async (handle, { handler, awaited, slots }) => {
      const own = slots ? ofSlots(slots) : { work: WORK, max: POOL };
      await start({ migrate: false, useListenNotify: awaited, max: own.max });
      const fails = handler === "fails-twice";
      await boss.work(
        "bench",
        { ...own.work, ...(fails ? { perJobResults: true } : {}) },
        fails ? resultsOf(handle) : allOf(handle),
      );
    },

    // from the newest on: those are settled last, and the dead ones of the others are left alone meanwhile
    left: async () =>
      (
        await sql.run(
          "select from pgboss.job where name = 'bench' and state < 'completed' and created_on > $1 order by created_on desc limit 1",
          [begunAt],
        )
      ).length > 0,
    tally: async () =>
      await sql.numbers(
        `select count(*) filter (where state < 'completed') as unfinished, count(*) filter (where state = 'completed') as succeeded,
           count(*) filter (where state > 'completed') as failed from pgboss.job where name = 'bench'`,
      ),
    close: async () => {
      await boss?.stop({ graceful: false });
      await sql.close();
    },
  };
}

const allOf = (handle) => async (jobs) => {
  const waits = [];
  for (const { data } of jobs) {
    const result = handle(data);
    if (result) waits.push(result);
  }
  if (waits.length > 0) await Promise.all(waits);
};

const resultsOf = (handle) => async (jobs) =>
  jobs.map(({ id, data }) => {
    try {
      handle(data);
      return { id, status: "completed" };
    } catch (error) {
      return { id, status: "failed", output: { message: error.message, stack: error.stack } };
    }
  });
