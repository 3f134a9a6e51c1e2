import { Injectable } from "@nestjs/common";
import { type HealthIndicatorResult, HealthIndicatorService } from "@nestjs/terminus";
import { type Duration, durationMs } from "../job/duration.js";
import { SchemaNotReadyError } from "../job/errors.js";
import { OptionsCheck, readable } from "../job/options-check.js";
import { unknownQueue } from "../job/unknown-queue.js";
import { refusal } from "../queue/failure.js";
import { JobInspector } from "../queue/job-inspector.js";
import type { QueueHealth } from "../store/reads/stats.js";
import { Kept, LateError } from "./kept.js";

/** What is still healthy; without a threshold the answer is `up`. */
export interface JobsHealthOptions {
  /** Jobs that could run now, per queue; at most 10,000, since more are not counted. */
  maxBacklog?: number;
  /** Age of the oldest of them, per queue. */
  maxLag?: Duration;
  /** Dead letters, per queue. */
  maxDeadLetters?: number;
  /** Only these queues, at least one; absent: all. */
  queues?: readonly string[];
}

const PATIENCE_MS = 5_000;
/** To find out whether it is the database that does not answer. */
const ANSWER_MS = 1_000;

/**
 * Backlog, lag, oldest job, dead letters and expired leases for Terminus. Too much of them is `degraded`, which
 * answers 200: they are shared by all replicas, and no restart cures them. So is a queue that nobody has used yet, and
 * whatever keeps a database that answers from counting: a right, a lock, a count that takes too long. `down` means that
 * the database is away, or that its schema does not serve.
 */
@Injectable()
export class JobsHealthIndicator {
  readonly #counted: Kept<QueueHealth[] | Uncounted>;
  readonly #reachable: Kept<boolean>;

  constructor(
    private readonly health: HealthIndicatorService,
    inspector: JobInspector,
  ) {
    this.#counted = new Kept(async () => await inspector.health().catch(whyUncounted));
    this.#reachable = new Kept(async () => await inspector.reachable(ANSWER_MS));
  }

  /** At most one query per 10 s, however often it is asked. @throws OptionsError for bad thresholds. */
  async check<const K extends string>(
    key: K,
    options: JobsHealthOptions = {},
  ): Promise<HealthIndicatorResult<K>> {
    const limits = readable("call of JobsHealthIndicator.check", () => checked(key, options));
    const session = this.health.check(key);
    const all = await this.#counted
      .within(PATIENCE_MS)
      .catch(async (error: unknown) => await this.#unanswered(error));
    if (!Array.isArray(all)) {
      const data = { reasons: [all.reason] };
      return all.status === "down" ? session.down(data) : session.degraded(data);
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

  async #unanswered(error: unknown): Promise<Uncounted> {
    const late =
      error instanceof LateError && (await this.#reachable.within(ANSWER_MS).catch(() => false));
    return late ? SLOW : AWAY;
  }
}

/** Why the jobs were not counted. */
interface Uncounted {
  status: "degraded" | "down";
  reason: string;
}

const AWAY: Uncounted = { status: "down", reason: "the job tables cannot be read" };
const SLOW: Uncounted = {
  status: "degraded",
  reason:
    `due jobs were not counted within ${PATIENCE_MS / 1_000} s; a transaction that has been open for long ` +
    "keeps the rows of finished jobs in the way: pg_stat_activity names it",
};
const LOCKED: Uncounted = {
  status: "degraded",
  reason:
    "due jobs were not counted: another session, or a migration, holds a lock on the job tables: pg_locks names it",
};

/** What the server has said serves for as long as a count does; rejects when it has said nothing. */
function whyUncounted(error: unknown): Uncounted {
  const { message } = error as Error;
  if (error instanceof SchemaNotReadyError) return { status: "down", reason: message };
  const why = refusal(error);
  if (why === undefined) throw error;
  if (why === "slow") return SLOW;
  return why === "locked" ? LOCKED : { status: "degraded", reason: message };
}

/** A backlog is counted up to one more: a threshold above could never be passed. */
const MOST_COUNTED = 10_000;

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
  check.integer("maxBacklog", given.maxBacklog, 0, MOST_COUNTED);
  check.integer("maxDeadLetters", given.maxDeadLetters, 0, Number.MAX_SAFE_INTEGER);
  check.duration("maxLag", given.maxLag, 0);
  if (
    given.queues !== undefined &&
    !(
      Array.isArray(given.queues) &&
      given.queues.length > 0 &&
      given.queues.every((queue) => typeof queue === "string")
    )
  ) {
    check.expected("queues", "a list of queue names, at least one", given.queues);
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
