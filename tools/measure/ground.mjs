// A database with our schema, sessions with their real settings, and the small tools every loop needs.
import pg from "pg";
import { Database } from "../../libs/jobs/dist/pg/database.js";
import { migrate } from "../../libs/jobs/dist/store/migrations/migrate.js";
import { ensureLane, ensureQueue } from "../../libs/jobs/dist/store/queues/lanes.js";
import { JobIds } from "../../libs/jobs/dist/store/queues/ids.js";
import { enqueue } from "../../libs/jobs/dist/store/transitions/enqueue.js";
import { newJob } from "../new-job.mjs";
import { register } from "../../libs/jobs/dist/store/workers/workers.js";

const PAYLOAD = JSON.stringify({
  to: "ada@example.com",
  subject: "hello",
  text: "x".repeat(40),
  n: 1,
});

export class Ground {
  static async open(url, serverPid) {
    const ground = new Ground();
    ground.url = url;
    ground.serverPid = serverPid;
    ground.admin = new pg.Client(url);
    await ground.admin.connect();
    ground.database = new Database({ connectionString: url }, "jobs", 50);
    ground.front = ground.database.open("front");
    await migrate(ground.front);
    const { id } = await ensureQueue(ground.front, "measured");
    const { lane } = await ensureLane(ground.front, id, "noop", 0);
    ground.queueId = id;
    ground.lane = lane;
    ground.ids = new JobIds();
    const [[version]] = await ground.front.run({
      name: null,
      text: () => `select version from jobs.queue where id = ${id}`,
    });
    ground.version = Number(version);
    ground.worker = await register(ground.front, {
      host: "measure",
      pid: process.pid,
      kinds: {},
      slots: 1,
    });
    return ground;
  }

  /** Jobs that are due at once; ids ascend. */
  async jobs(count) {
    const ids = await this.ids.take(this.front, count);
    const address = { queue: "measured", lane: this.lane, kind: "noop" };
    return ids.map((id) => newJob(id, address, PAYLOAD));
  }

  async fill(count, batch = 5_000) {
    for (let left = count; left > 0; left -= batch)
      await enqueue(this.front, this.queueId, await this.jobs(Math.min(batch, left)));
  }

  async clear() {
    await this.admin.query(
      "truncate jobs.job, jobs.done, jobs.dead, jobs.dead_archive, jobs.attempt_error, jobs.stat, jobs.stat_delta, jobs.slot, jobs.parked, jobs.bucket",
    );
    await this.admin.query("checkpoint");
  }

  async analyse() {
    await this.admin.query("vacuum analyze jobs.job");
  }

  /** WAL bytes that `work` has written. */
  async wal(work) {
    const at = async () =>
      (await this.admin.query("select pg_current_wal_lsn()::text as lsn")).rows[0].lsn;
    const before = await at();
    await work();
    const { rows } = await this.admin.query("select pg_wal_lsn_diff($1, $2)::float8 as bytes", [
      await at(),
      before,
    ]);
    return rows[0].bytes;
  }

  async serverVersion() {
    return (await this.admin.query("show server_version")).rows[0].server_version.split(" ")[0];
  }

  async close() {
    await this.database.close();
    await this.admin.end();
  }
}

/** Jobs per second of `work` on `count` jobs. */
export async function rate(count, work) {
  const from = performance.now();
  await work();
  return (count / (performance.now() - from)) * 1_000;
}

export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

export const perSecond = (value) =>
  `${value >= 10_000 ? `${(value / 1_000).toFixed(1)}k` : Math.round(value)}/s`;
export const ratio = (value, base) => (value / base).toFixed(2);
