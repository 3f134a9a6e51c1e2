import { type Duration, durationMs } from "../job/duration.js";
import type { FollowOptions } from "../job/follow-options.js";
import { type JobFilter, type PageOptions, formatCursor, parseList } from "../job/job-filter.js";
import { OptionsCheck, isName, readable } from "../job/options-check.js";
import { type LogPageOptions, formatLogCursor, parseLogPage } from "../job/log-page.js";
import { parseJobId } from "../job/job-id.js";
import { unknownQueue } from "../job/unknown-queue.js";
import { type KindDeaths, type RecentDeaths, deaths, died } from "../store/reads/deaths.js";
import { type HistoryEvent, history } from "../store/reads/history.js";
import {
  type AttemptError,
  type JobSummary,
  type JobView,
  attempts,
  get,
} from "../store/reads/job.js";
import { type JobLogLine, type JobProgress, lines, progress } from "../store/reads/reports.js";
import {
  type KindCounts,
  type QueueCounts,
  type QueueHealth,
  counts,
  health,
  queueCounts,
  queueNames,
  unknownKinds,
} from "../store/reads/stats.js";
import { type WorkerView, workers } from "../store/reads/workers.js";
import type { Store } from "../store/store.js";
import { callerError } from "./failure.js";
import type { JobNews } from "./follow.js";
import type { Followers } from "./followers.js";
import type { Searches } from "./searches.js";

// The way to look: reads only, none of them on the hot path.

/** A page of a list, newest jobs first; those of different processes are out of order by up to a minute. */
export interface JobPage {
  items: JobSummary[];
  /** `after` of the next page; null when there is nothing older. */
  next: string | null;
  /**
   * A page looks at no more than 20,000 jobs; with `error` or `payload` at no more than 5,000, and for no longer than about half
   * a second. When that ended it, this says how far back it looked: whatever fits and was created later has been shown.
   * `next` goes on from there. Null otherwise.
   */
  searchedBackTo: string | null;
}

/** A page of a job's log, oldest lines first. */
export interface JobLogPage {
  items: JobLogLine[];
  /** `after` of the next page; null when there is nothing newer yet. */
  next: string | null;
}

/** Looks at jobs, queues and counters. */
export class JobInspector {
  /** @internal Made by `JobsModule.forRoot()`. */
  constructor(
    private readonly store: Store,
    private readonly followers: Followers,
    private readonly searches: Searches,
  ) {}

  /** The job, whatever its state; null when there is none. @throws BadJobIdError */
  async get(id: string): Promise<JobView | null> {
    const { queueId, number } = parseJobId(id);
    const { store } = this;
    return await this.#read(async () => get(store, queueId, number, await store.offers(2)));
  }

  /**
   * Jobs that fit a filter, newest first, by id: those of different processes are out of order by up to a minute, and
   * those of a transaction by as long as it had lasted. A job that changes its state between pages is neither shown
   * twice nor missed. A `key` is found at once among unfinished jobs; any other filter looks at no more than 20,000 jobs a page
   * ({@link JobPage.searchedBackTo}), `error` and `payload` at 5,000, for half a second at most. Of these a process does two
   * at once; 20 more wait, others are refused.
   * @throws OptionsError, BadCursorError, SearchesBusyError
   */
  async list(filter?: JobFilter, page?: PageOptions): Promise<JobPage> {
    const { filter: parsed, limit, before } = readable("list", () => parseList(filter, page));
    // It may take a while: no enqueue of this process waits for it.
    const { before: next, ...found } = await this.#read(() =>
      this.searches.page(parsed, limit, before),
    );
    return { ...found, next: next === null ? null : formatCursor(next) };
  }

  /** Each failed attempt with its error, oldest first. @throws BadJobIdError */
  async attempts(id: string): Promise<AttemptError[]> {
    const { queueId, number } = parseJobId(id);
    return await this.#read(async () =>
      attempts(this.store, queueId, number, await this.store.offers(2)),
    );
  }

  /**
   * What happened to the job, in order, as far back as its rows are kept; empty when nobody knows it. Whole where
   * the queue's history is `'full'` or `'exceptions'`; otherwise only what its tables tell.
   * @throws BadJobIdError, SchemaNotReadyError
   */
  async history(id: string): Promise<HistoryEvent[]> {
    const { queueId, number } = parseJobId(id);
    return await this.#read(async () => {
      await this.store.needs(2, "the history of jobs");
      return await history(this.store, queueId, number);
    });
  }

  /** What an attempt of this job last said of its progress; null: none has. @throws BadJobIdError, SchemaNotReadyError */
  async progress(id: string): Promise<JobProgress | null> {
    const { queueId, number } = parseJobId(id);
    return await this.#read(async () => {
      await this.store.needs(2, "progress");
      return await progress(this.store, queueId, number);
    });
  }

  /**
   * What attempts of this job have logged, oldest first.
   * @throws BadJobIdError, OptionsError, BadCursorError, SchemaNotReadyError
   */
  async logs(id: string, page?: LogPageOptions): Promise<JobLogPage> {
    const { queueId, number } = parseJobId(id);
    const { attempt, limit, after } = readable("logs", () => parseLogPage(page));
    return await this.#read(async () => {
      await this.store.needs(2, "logs");
      // One more tells whether there is another page.
      const found = await lines(this.store, queueId, number, after, attempt, limit + 1);
      const items = found.slice(0, limit);
      return { items, next: found.length > limit ? formatLogCursor(items.at(-1)!) : null };
    });
  }

  /**
   * What is new of a job, as it comes: its state, progress and log lines, from the beginning or from `after` on. Ends when
   * the job is over, or gone, or the signal aborts, or whoever follows leaves: at once, though he waits for news. However
   * many jobs are followed, a process looks at all of them once a second, as often as lines are written.
   * @throws BadJobIdError, OptionsError, BadCursorError; and when it is asked for news SchemaNotReadyError,
   * DatabaseRefusedError, DatabaseUnavailableError, FollowClosedError.
   */
  follow(id: string, options?: FollowOptions): AsyncGenerator<JobNews, void, undefined> {
    return this.followers.follow(id, options);
  }

  /** Jobs by queue, kind and state, from counters: the cost does not grow with the number of jobs. */
  async counts(): Promise<KindCounts[]> {
    return await this.#read(() => counts(this.store.aside));
  }

  /**
   * What has died lately and is dead still, by queue and kind, the most first; what has died before costs nothing.
   * @param within at most so long ago; default an hour.
   * @throws OptionsError
   */
  async deaths(within: Duration = HOUR_MS): Promise<KindDeaths[]> {
    const ms = durationMs(within, "within");
    return await this.#read(() => deaths(this.store.aside, ms));
  }

  /**
   * Which jobs have died since a time and are dead still, the oldest first: what has died before costs nothing. `at` of the
   * answer is the time for the next call; a job whose end was written in a long transaction may be from before it.
   * @param since absent: none, but what time it is.
   * @param limit 1..1,000, default 200.
   * @throws OptionsError
   */
  async died(since?: Date, limit?: number): Promise<RecentDeaths> {
    const { from, most } = readable("died", () => {
      const check = new OptionsCheck("call of JobInspector.died");
      const read = {
        from: check.date("since", since),
        most: check.integer("limit", limit, 1, 1_000) ?? 200,
      };
      check.done();
      return read;
    });
    return await this.#read(() => died(this.store.aside, from?.toISOString() ?? null, most));
  }

  /** Every queue with its jobs by state, from the same counters. */
  async queues(): Promise<QueueCounts[]> {
    return await this.#read(() => queueCounts(this.store.aside));
  }

  /** The workers of the last day: who lives, what they serve and how much they run. */
  async workers(): Promise<WorkerView[]> {
    return await this.#read(() => workers(this.store));
  }

  /**
   * Backlog, lag, dead letters and expired leases of these queues; absent: of all.
   * @throws OptionsError when one of them has had neither a job nor a worker yet.
   */
  async health(queues?: readonly string[]): Promise<QueueHealth[]> {
    const asked = readable(SUBJECT, () => checkQueues(queues));
    const found = await this.#read(() => health(this.store.aside, asked));
    if (asked && found.length < new Set(asked).size) {
      const known = await this.#read(() => queueNames(this.store));
      refuseUnknown(asked, known);
    }
    return found;
  }

  /** @internal Whether the database answers within so many ms, however long a read takes. */
  async reachable(ms: number): Promise<boolean> {
    return await this.store.answers(ms);
  }

  /** Kinds with waiting jobs that no live worker has a handler for. */
  async unknownKinds(): Promise<{ queue: string; kind: string }[]> {
    return await this.#read(() => unknownKinds(this.store.aside));
  }

  async #read<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, "read");
    }
  }
}

const HOUR_MS = 3_600_000;
const SUBJECT = "queues of JobInspector.health";

function checkQueues(queues: unknown): string[] | null {
  if (queues === undefined) return null;
  const check = new OptionsCheck(SUBJECT);
  if (!Array.isArray(queues)) check.expected("queues", "a list of queue names", queues);
  else
    queues.forEach((name: unknown, index) => {
      if (!isName(name)) check.expected(`queues[${index}]`, "the name of a queue", name);
    });
  check.done();
  return [...(queues as string[])];
}

function refuseUnknown(asked: readonly string[], known: readonly string[]): void {
  const check = new OptionsCheck(SUBJECT);
  asked.forEach((name, index) => {
    if (!known.includes(name)) check.add(`queues[${index}]: ${unknownQueue(name, known)}`);
  });
  check.done();
}
