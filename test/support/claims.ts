import { defineJob } from "nestjs-pg-jobs";
import type { Handler } from "../../libs/jobs/src/handler/handler.js";
import { BUILT_IN_POLICY } from "../../libs/jobs/src/job/defaults.js";
import { Database } from "../../libs/jobs/src/pg/database.js";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import { lanesOf } from "../../libs/jobs/src/store/queues/lanes.js";
import { type Claim, claim } from "../../libs/jobs/src/store/transitions/claim.js";
import { register } from "../../libs/jobs/src/store/workers/workers.js";
import { Attempt } from "../../libs/jobs/src/worker/attempt.js";
import type { Bench } from "./harness.js";

/** A handler that is never run. */
export const idleHandler = (kind: string, concurrency: number | null = null): Handler => ({
  definition: defineJob(kind),
  concurrency,
  schedule: null,
  limits: null,
  batch: null,
  subscription: null,
  policy: BUILT_IN_POLICY,
  run: () => undefined,
  name: `${kind}.run`,
});

/** A claim of nobody's, as far as it matters. */
export const claimOf = (over: Partial<Claim> = {}): Claim => ({
  id: "1",
  queueId: 1,
  lane: 0,
  kind: "job",
  attempt: 1,
  worker: 1,
  failures: 0,
  crashes: 0,
  attempts: null,
  timeoutMs: null,
  runAt: "2026-01-01 00:00:00+00",
  payload: "{}",
  headers: null,
  rescued: false,
  cancelled: false,
  ...over,
});

/** The attempt of a claim, with nothing around it. */
export const attemptOf = (one: Claim, handler = idleHandler("job")): Attempt =>
  new Attempt(one, handler, "default", {
    logger: () => {
      throw new Error("it has no logger");
    },
    enqueue: () => Promise.reject(new Error("it cannot enqueue")),
    transaction: () => Promise.reject(new Error("it has no transaction")),
    reported: () => {
      throw new Error("it cannot report");
    },
  });

/** Claims as a worker does, without a worker. */
export class ClaimingHand {
  readonly #session: Session;
  readonly #database: Database;

  constructor(bench: Bench) {
    this.#database = new Database({ connectionString: bench.url }, bench.schema, 1);
    this.#session = this.#database.open("claim");
  }

  /** All that is due in queue 1, under a fresh worker id. */
  async claim(room = 2_000): Promise<Claim[]> {
    const lanes = await lanesOf(this.#session, [1]);
    const worker = await register(this.#session, { host: "test", pid: 1, kinds: {}, slots: 1 });
    const all: Claim[] = [];
    // Each lane raises the version: whichever it is, one of them fits.
    for (let version = 1; all.length === 0 && version <= lanes.length + 1; version++) {
      all.push(
        ...(await claim(this.#session, {
          queueId: 1,
          version,
          lanes: lanes.map(({ lane }) => ({ lane, at: "-infinity", id: "0", backMs: 0, room })),
          room,
          leaseMs: 60_000,
          worker,
          takeOverUntil: "-infinity",
        })),
      );
    }
    return all;
  }

  async close(): Promise<void> {
    await this.#database.close();
  }
}
