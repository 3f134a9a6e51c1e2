import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { Sql } from "./sql.mjs";

// Its local queue and its batches of completions: what its page on performance names.
const LOCAL_QUEUE = { size: 2_000, refetchDelay: { durationMs: 10 } };
/** The delay spares fetches at the cost of latency. */
const PROMPT_QUEUE = { size: 2_000 };
/** More than ours has under way: with a hundred it waits for the handlers. */
const WAITING = { concurrentJobs: 1_500 };
const WORKER = {
  concurrentJobs: 100,
  maxPoolSize: 16,
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
/** One of many processes: it fetches for itself alone, and the server has 200 connections for all of them. */
const ofSlots = (slots) => ({
  concurrentJobs: slots,
  localQueue: { size: slots },
  maxPoolSize: 8,
});
const quiet = new Logger(() => () => {});

export function open({ url }) {
  const sql = new Sql(url);
  const worker = { connectionString: url, logger: quiet, ...WORKER };
  const options = { preset: { worker } };
  let utils;
  let newestAtFirst;
  let runner;
  const specs = (payloads, spec) =>
    payloads.map((payload) => ({ identifier: "bench", payload, ...spec }));

  return {
    install: async () => await runMigrations(options),
    seeds: {
      scheduled: async (count) => {
        const runAt = new Date(Date.now() + 86_400_000);
        for (let done = 0; done < count; done += 1_000)
          await utils.addJobs(
            specs(
              Array.from({ length: Math.min(1_000, count - done) }, () => ({
                n: -1,
                text: "later",
              })),
              { runAt },
            ),
          );
      },
    },

    produce: async () => {
      utils = await makeWorkerUtils(options);
      ({ id: newestAtFirst } = await sql.numbers(
        "select coalesce(max(id), 0) as id from graphile_worker._private_jobs",
      ));
    },
    enqueue: async (payload) => await utils.addJob("bench", payload),
    enqueueMany: async (payloads) => await utils.addJobs(specs(payloads)),
    enqueueWithin: async (client, payload) =>
      await client.query("select graphile_worker.add_job('bench', $1::json)", [
        JSON.stringify(payload),
      ]),

    work: async (handle, { timed, handler, slots }) => {
      const localQueue = timed ? PROMPT_QUEUE : LOCAL_QUEUE;
      const more = slots ? ofSlots(slots) : handler === "waits-1ms" ? WAITING : {};
      runner = await run({
        preset: { worker: { ...worker, localQueue, ...more } },
        noHandleSignals: true,
        taskList: { bench: async (payload) => await handle(payload) },
      });
    },

    // from the newest on: those are settled last, and the dead ones of the others are left alone meanwhile
    left: async () =>
      (
        await sql.run(
          "select from graphile_worker._private_jobs where id > $1 order by id desc limit 1",
          [newestAtFirst],
        )
      ).length > 0,
    tally: async () => ({
      ...(await sql.numbers(
        `select count(*) filter (where attempts < max_attempts) as unfinished,
           count(*) filter (where attempts >= max_attempts) as failed from graphile_worker._private_jobs`,
      )),
      succeeded: null,
    }),
    close: async () => {
      await runner?.stop();
      await utils?.release();
      await sql.close();
    },
  };
}
