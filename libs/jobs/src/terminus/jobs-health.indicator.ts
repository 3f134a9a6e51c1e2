import { Injectable } from "@nestjs/common";
import { type HealthIndicatorResult, HealthIndicatorService } from "@nestjs/terminus";
import { type Duration, durationMs } from "../job/duration.js";
import { JobsError } from "../job/errors.js";
import { OptionsCheck, readable } from "../job/options-check.js";
import { unknownQueue } from "../job/unknown-queue.js";
import { JobInspector } from "../queue/job-inspector.js";
import type { QueueHealth } from "../store/reads/stats.js";

/** What is still healthy; without a threshold the answer is `up`. */
export interface JobsHealthOptions {
  /** Jobs that could run now, per queue. */
  maxBacklog?: number;
  /** Age of the oldest of them, per queue. */
  maxLag?: Duration;
  /** Dead letters, per queue. */
  maxDeadLetters?: number;
  /** Only these queues; absent: all. */
  queues?: readonly string[];
}

const FRESH_MS = 10_000;
const PATIENCE_MS = 5_000;
/** To find out whether it is the database that does not answer. */
const ANSWER_MS = 1_000;

/**
 * Backlog, lag, oldest job, dead letters and expired leases for Terminus. Too much of them is `degraded`, which
 * answers 200: they are shared by all replicas, and no restart cures them. So is a queue that nobody has used yet, and
 * jobs that take too long to be counted. `down` means that the database is away.
 */
@Injectable()
export class JobsHealthIndicator {
  #sampled: { at: number; queues: Promise<QueueHealth[]> } | undefined;

  constructor(
    private readonly health: HealthIndicatorService,
    private readonly inspector: JobInspector,
  ) {}

  /** At most one query per 10 s, however often it is asked. @throws OptionsError for bad thresholds. */
  async check<const K extends string>(
    key: K,
    options: JobsHealthOptions = {},
  ): Promise<HealthIndicatorResult<K>> {
    const limits = readable("call of JobsHealthIndicator.check", () => checked(key, options));
    const session = this.health.check(key);
    let all: QueueHealth[];
    try {
      all = await within(this.#sample(), PATIENCE_MS);
    } catch (error) {
      // The server's own limit for a statement has no type of ours.
      const late = error instanceof LateError || !(error instanceof JobsError);
      return late && (await this.#answers())
        ? session.degraded({ reasons: [UNCOUNTED] })
        : session.down({ reasons: ["the job tables cannot be read"] });
    }
    const queues = all.filter(
      ({ queue }) => limits.queues === undefined || limits.queues.includes(queue),
    );
    const reasons = [
      ...unknown(
        limits.queues,
        all.map(({ queue }) => queue),
      ),
      ...queues.flatMap((one) => breaches(one, limits)),
    ];
    const data = {
      ...sum(queues),
      queues: Object.fromEntries(queues.map(({ queue, ...rest }) => [queue, rest])),
      reasons,
    };
    return reasons.length > 0 ? session.degraded(data) : session.up(data);
  }

  async #answers(): Promise<boolean> {
    const known = within(this.inspector.reachable(), ANSWER_MS);
    return await known.then(
      () => true,
      () => false,
    );
  }

  /** Probes that come together share one query; a failure is not kept. */
  #sample(): Promise<QueueHealth[]> {
    const now = performance.now();
    if (!this.#sampled || now - this.#sampled.at > FRESH_MS) {
      const sample = { at: now, queues: this.inspector.health() };
      this.#sampled = sample;
      sample.queues.catch(() => {
        if (this.#sampled === sample) this.#sampled = undefined;
      });
    }
    return this.#sampled.queues;
  }
}

const UNCOUNTED =
  `due jobs were not counted within ${PATIENCE_MS / 1_000} s; a transaction that has been open for long ` +
  "keeps the rows of finished jobs in the way: pg_stat_activity names it";

class LateError extends Error {
  override readonly name = "LateError";
}

interface Limits {
  maxBacklog?: number;
  maxLagMs?: number;
  maxDeadLetters?: number;
  queues?: readonly string[];
}

function checked(key: unknown, options: JobsHealthOptions): Limits {
  const check = new OptionsCheck("call of JobsHealthIndicator.check");
  if (typeof key !== "string" || key === "") check.expected("key", "a name for the report", key);
  const known = ["maxBacklog", "maxLag", "maxDeadLetters", "queues"];
  // Nothing else of what is no object can be read.
  if (!check.object("", options, known)) check.done();
  const given = options as Record<string, unknown>;
  check.integer("maxBacklog", given.maxBacklog, 0, Number.MAX_SAFE_INTEGER);
  check.integer("maxDeadLetters", given.maxDeadLetters, 0, Number.MAX_SAFE_INTEGER);
  check.duration("maxLag", given.maxLag, 0);
  if (
    given.queues !== undefined &&
    !(Array.isArray(given.queues) && given.queues.every((queue) => typeof queue === "string"))
  ) {
    check.expected("queues", "a list of queue names", given.queues);
  }
  check.done();
  const { maxLag, ...limits } = options;
  return maxLag === undefined ? limits : { ...limits, maxLagMs: durationMs(maxLag) };
}

/** Watching nothing is not healthy; but the queue may be made by the first job, so no probe fails for it. */
const unknown = (asked: readonly string[] = [], known: readonly string[]): string[] =>
  asked
    .filter((queue) => !known.includes(queue))
    .map((queue) => `queues: ${unknownQueue(queue, known)}`);

function breaches({ queue, backlog, lagMs, deadLetters }: QueueHealth, limits: Limits): string[] {
  const over = (what: string, found: number, limit: number | undefined) =>
    limit !== undefined && found > limit ? [`${queue}: ${what} ${found} > ${limit}`] : [];
  return [
    ...over("backlog", backlog, limits.maxBacklog),
    ...over("lagMs", lagMs, limits.maxLagMs),
    ...over("deadLetters", deadLetters, limits.maxDeadLetters),
  ];
}

function sum(queues: readonly QueueHealth[]): Omit<QueueHealth, "queue"> {
  const oldest = queues.reduce<QueueHealth | undefined>(
    (a, b) => (a && a.lagMs >= b.lagMs ? a : b),
    undefined,
  );
  return {
    backlog: queues.reduce((total, { backlog }) => total + backlog, 0),
    lagMs: oldest?.lagMs ?? 0,
    oldestJob: oldest?.oldestJob ?? null,
    deadLetters: queues.reduce((total, { deadLetters }) => total + deadLetters, 0),
    expiredLeases: queues.reduce((total, { expiredLeases }) => total + expiredLeases, 0),
  };
}

async function within<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>(
    (_, reject) => (timer = setTimeout(() => reject(new LateError("no answer")), ms)),
  );
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
