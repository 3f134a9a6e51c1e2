// What BullMQ on Redis and on PostgreSQL have in common: all but the connection.
import { Queue, Worker } from "bullmq";

const UNFINISHED = ["waiting", "active", "delayed", "prioritized", "paused"];
/** Finished jobs go; a job has three attempts, and the next one comes at once. */
const JOB = { removeOnComplete: true, removeOnFail: false, attempts: 3 };

/**
 * `connection` is the worker's, and that of the producer where `producing` says nothing else; `backend` is what the
 * constructors take last: none, or the factory of another one than Redis.
 */
export function openBullMq({
  connection,
  producing = connection,
  concurrency,
  install,
  backend = [],
}) {
  let queue;
  let worker;
  const produce = async () => {
    queue ??= new Queue("bench", { connection: producing, defaultJobOptions: JOB }, ...backend);
    queue.on("error", (error) => console.error(error));
    await queue.waitUntilReady();
  };
  const count = async (...states) =>
    Object.values(await queue.getJobCounts(...states)).reduce((sum, n) => sum + n, 0);

  return {
    install,
    produce,
    enqueue: async (payload) => await queue.add("bench", payload),
    enqueueMany: async (payloads) =>
      await queue.addBulk(payloads.map((data) => ({ name: "bench", data }))),

    work: async (handle, { slots }) => {
      worker = new Worker(
        "bench",
        async ({ data }) => await handle(data),
        { connection, concurrency: slots ?? concurrency },
        ...backend,
      );
      worker.on("error", (error) => console.error(error));
      await worker.waitUntilReady();
    },

    left: async () => (await count(...UNFINISHED)) > 0,
    tally: async () => ({
      unfinished: await count(...UNFINISHED),
      succeeded: null,
      failed: await count("failed"),
    }),
    close: async () => {
      await worker?.close(true);
      await queue?.close();
    },
  };
}
