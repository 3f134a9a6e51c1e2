import { jest } from "@jest/globals";
import { JobQueue, defineJob } from "nestjs-pg-jobs";
import { Cursor } from "../../libs/jobs/src/worker/cursor.js";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";

// What lies behind the cursors is found in slices where to walk from the beginning is too dear: here, as if it always were.

const Job = defineJob("job");

describe("a worker that cannot walk from the beginning", () => {
  let bench: Bench;
  let ran: string;
  beforeAll(async () => {
    bench = await Bench.open();
    const app = await bench.worker([handler(Job, () => {})], { poll: "200ms" });
    ran = (await app.get(JobQueue).enqueue(Job)).id;
    await reached(bench, ran, "succeeded");
    jest.spyOn(Cursor.prototype, "isDear").mockReturnValue(true);
  });
  afterAll(async () => {
    jest.restoreAllMocks();
    await bench.close();
  });

  /** As somebody with SQL puts it there, in the queue and lane of the job that ran. */
  async function put(runAt: string, more: Record<string, unknown> = {}): Promise<string> {
    const extra = { lease_until: null, worker: null, attempt: 0, ...more };
    const [row] = await bench.sql<{ id: string }>(
      `insert into jobs.job (id, queue_id, lane, kind, payload, run_at, lease_until, worker, attempt)
       select nextval('jobs.job_id'), d.queue_id, d.lane, d.kind, '{}', now() - $1::interval, $2::timestamptz, $3::integer, $4::integer
       from jobs.done d where d.queue_id || '-' || d.id = $5 returning queue_id || '-' || id as id`,
      [runAt, extra.lease_until, extra.worker, extra.attempt, ran],
    );
    return row!.id;
  }

  it.each(["2 seconds", "2 minutes", "3 years"])(
    "finds a job that is due since %s",
    async (ago) => {
      const from = jest.spyOn(Cursor.prototype, "requests");
      await reached(bench, await put(ago), "succeeded");
      const requests = from.mock.results.flatMap(({ value }) => value as { at: string }[]);
      expect(requests.filter(({ at }) => at === "-infinity")).toEqual([]);
    },
  );

  // Our own claims may never have come as far as those of another worker.
  it.each(["1 hour", "0 s"])(
    "takes over the job of a worker that is gone, due since %s",
    async (ago) => {
      const [gone] = await bench.sql<{ id: number }>(
        "insert into jobs.worker (host, pid) values ('gone', 1) returning id",
      );
      const lease = new Date(Date.now() - 60_000);
      const id = await put(ago, { lease_until: lease, worker: gone!.id, attempt: 1 });
      const { attempt } = await reached(bench, id, "succeeded", { timeout: 30_000 });
      expect(attempt).toBe(2);
    },
  );
});
