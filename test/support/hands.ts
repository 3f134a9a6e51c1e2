import { ensureLane, ensureQueue } from "../../libs/jobs/src/store/queues/lanes.js";
import { JobIds } from "../../libs/jobs/src/store/queues/ids.js";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import {
  type Claim,
  type LaneRequest,
  claim as claimJobs,
} from "../../libs/jobs/src/store/transitions/claim.js";
import type { Writes } from "../../libs/jobs/src/store/transitions/noted.js";
import { enqueue } from "../../libs/jobs/src/store/transitions/enqueue.js";
import type { NewJob } from "../../libs/jobs/src/store/transitions/new-jobs.js";
import { register } from "../../libs/jobs/src/store/workers/workers.js";
import { newJob } from "../../tools/new-job.mjs";
import type { Bench } from "./harness.js";

/** A scan of a lane from its beginning. */
export const from = (lane: number, over: Partial<LaneRequest> = {}): LaneRequest => ({
  lane,
  at: "-infinity",
  id: "0",
  backMs: 0,
  room: 1_000,
  ...over,
});

/** Does by hand, statement by statement, what a worker does with one queue. */
export class Hands {
  readonly #ids = new JobIds();

  private constructor(
    readonly bench: Bench,
    readonly session: Session,
    readonly queueId: number,
    readonly lane: number,
    readonly queue: string,
    readonly kind: string,
    readonly priority: number,
  ) {}

  static async open(
    bench: Bench,
    queue = "default",
    kind = "work",
    priority = 0,
    session = bench.session("settle"),
  ): Promise<Hands> {
    const { id } = await ensureQueue(session, queue);
    const { lane } = await ensureLane(session, id, kind, priority);
    return new Hands(bench, session, id, lane, queue, kind, priority);
  }

  /** The public id of one of this queue's jobs. */
  named(id: string): string {
    return `${this.queueId}-${id}`;
  }

  async add(over: Partial<NewJob> = {}): Promise<string> {
    return (await this.addMany(1, over))[0]!;
  }

  async addMany(count: number, over: Partial<NewJob> = {}): Promise<string[]> {
    const ids = await this.#ids.take(this.session, count);
    // One that is set aside is in no list.
    const looked = over.lane !== undefined;
    await enqueue(
      this.session,
      this.queueId,
      ids.map((id) => this.job({ looked, id, ...over })),
    );
    return ids;
  }

  /** A job of this lane, not inserted yet. */
  job({ id, ...over }: Partial<NewJob> & { id: string }): NewJob {
    return { ...newJob(id, this, "{}"), ...over };
  }

  async worker(pid = 1): Promise<number> {
    return await register(this.session, { host: "hands", pid, kinds: {}, slots: 1 });
  }

  async version(): Promise<number> {
    const rows = await this.bench.sql<{ version: number }>(
      "select version from jobs.queue where id = $1",
      [this.queueId],
    );
    return rows[0]!.version;
  }

  async claim(
    worker: number,
    over: {
      /** Or until then. */
      takeOver?: boolean | Date;
      room?: number;
      lanes?: LaneRequest[];
      version?: number;
      session?: Session;
      leaseMs?: number;
      writes?: Writes;
    } = {},
  ): Promise<Claim[]> {
    const request = {
      queueId: this.queueId,
      version: over.version ?? (await this.version()),
      lanes: over.lanes ?? [from(this.lane)],
      room: over.room ?? 1_000,
      leaseMs: over.leaseMs ?? 60_000,
      worker,
      takeOverUntil:
        over.takeOver instanceof Date
          ? over.takeOver.toISOString()
          : `${over.takeOver ? "" : "-"}infinity`,
    };
    return await claimJobs(over.session ?? this.session, request, over.writes);
  }

  /** The lease of these jobs ran out a minute ago. */
  async expire(...ids: string[]): Promise<void> {
    await this.bench.sql(
      "update jobs.job set lease_until = now() - interval '1 minute' where id = any($1) and lease_until is not null",
      [ids],
    );
  }

  /** Whatever the tables hold of a job, as text to compare. */
  async trace(id: string): Promise<string> {
    const rows = await this.bench.sql<{ at: string; row: unknown }>(
      `select 'job' as at, to_jsonb(j) as row from jobs.job j where id = $1
       union all select 'done', to_jsonb(d) from jobs.done d where id = $1
       union all select 'dead', to_jsonb(d) from jobs.dead d where id = $1
       union all (select 'error', to_jsonb(e) from jobs.attempt_error e where job_id = $1 order by e.attempt)`,
      [id],
    );
    return JSON.stringify(rows, null, 1);
  }
}
