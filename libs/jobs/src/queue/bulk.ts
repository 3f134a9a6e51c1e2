import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { BulkCountError, BulkTooLargeError, UnknownBulkError } from "../job/bulk-errors.js";
import {
  type BulkOrderOptions,
  type BulkRequest,
  MOST_JOBS,
  filterFromJson,
  filterToJson,
  parseBulkOrder,
  parseBulkRequest,
} from "../job/bulk-order.js";
import type { ParsedJobFilter } from "../job/job-filter.js";
import { OptionsCheck, describe, readable } from "../job/options-check.js";
import { isCheckViolation, isLockTimeout } from "../pg/sqlstate.js";
import { ConnectionLostError } from "../pg/session.js";
import {
  BULK_SINCE,
  type BulkView,
  abandoned,
  backToMark,
  end,
  find,
  giveUp,
  letGo,
  mark,
  newest,
  order,
  saveProgress,
  takeUp,
} from "../store/operators/bulk.js";
import type { JobSummary } from "../store/reads/job.js";
import { list, looksInto } from "../store/reads/list.js";
import type { Store } from "../store/store.js";
import { JobMovesError } from "../store/transitions/cancel.js";
import { ensurePartitions } from "../store/upkeep/partitions.js";
import { callerError, done } from "./failure.js";
import type { Done, OneJob } from "./one-job.js";
import type { Counted, Found, Searches } from "./searches.js";

// What is done to many jobs: ordered here, written down, and worked off by whichever process watches. A page of jobs and how
// far it has come are one transaction, so that a process that dies has done each page once or not at all.

const PAGE = 200;
const SAMPLE = 10;
/** A count takes no longer; what is left is too much. */
const COUNT_MS = 5_000;
/** The same, where jobs are looked into: others' reads come in between. */
const SEARCH_MS = 15_000;
/** How often to look for what nobody is at. */
const WATCH_MS = 5_000;
/** After a page that failed; so often in a row, and it is given up. */
const PAUSE_MS = 1_000;
const MOST_FAILURES = 5;
const MOST_WORDS = 1_000;
/** At the end: for the page that is under way. */
const FAREWELL_MS = 3_000;

/** What a bulk operation would meet. */
export interface BulkPreview {
  /** How many jobs fit now. */
  count: number;
  /**
   * Whether all were counted. If not, there are more than one operation may change, or more to look through than can be in
   * 5 s (15 s with `error` or `payload`): `start` would refuse, narrow the filter.
   */
  complete: boolean;
  /** The newest of them. */
  sample: JobSummary[];
}

/** Requeues, cancels or deletes many jobs at once. */
export class JobBulk {
  readonly #name = `${hostname()}:${process.pid}:${randomBytes(4).toString("hex")}`;
  readonly #running = new Map<string, Promise<void>>();
  /** Of these a page failed for a lock: so many jobs are gone through one by one. */
  readonly #slow = new Map<string, number>();
  #watching: NodeJS.Timeout | undefined;
  readonly #closing = new AbortController();

  /** @internal Made by `JobsModule.forRoot()`. */
  constructor(
    private readonly store: Store,
    private readonly one: OneJob,
    private readonly searches: Searches,
  ) {}

  /** Counts the jobs that fit, and shows some. @throws OptionsError, SchemaNotReadyError, SearchesBusyError */
  async preview(request: BulkRequest): Promise<BulkPreview> {
    const { filter } = readable("bulk operation", () => parseBulkRequest(request));
    return await this.#checked(async () => {
      return await this.#survey(filter);
    });
  }

  /**
   * Orders it; a process that watches begins at once, and no more jobs than expected are changed, of those that are there now.
   * @throws BulkCountError when other than `expected` jobs fit, BulkTooLargeError, OptionsError, SchemaNotReadyError,
   * SearchesBusyError: nothing was changed.
   */
  async start(request: BulkOrderOptions): Promise<BulkView> {
    const { filter, ...said } = readable("bulk operation", () => parseBulkOrder(request));
    return await this.#checked(async () => {
      const { count, complete } = await this.#survey(filter);
      if (!complete) throw new BulkTooLargeError(MOST_JOBS, count);
      if (count !== said.expected) throw new BulkCountError(said.expected, count);
      const made = await order(this.store, { ...said, filter: filterToJson(filter) });
      if (this.#watching) this.#begin(made.id);
      return made;
    });
  }

  /** As it stands; null when there is none. @throws SchemaNotReadyError */
  async get(id: string): Promise<BulkView | null> {
    return await this.#checked(async () => (isId(id) ? await find(this.store, id) : null));
  }

  /** The newest first; `after`: the id of the last one of the page before. @throws OptionsError, SchemaNotReadyError */
  async list(page: { limit?: number; after?: string } = {}): Promise<BulkView[]> {
    const { limit, after } = readable("page of bulk operations", () => {
      const check = new OptionsCheck("page of bulk operations");
      const given = check.object("", page, ["limit", "after"]) ? page : {};
      const most = check.integer("limit", given.limit, 1, 200) ?? 50;
      if (given.after !== undefined && !isId(given.after))
        check.expected("after", "the id of a bulk operation", given.after);
      check.done();
      return { limit: most, after: given.after ?? null };
    });
    return await this.#checked(() => newest(this.store, after, limit));
  }

  /** No more jobs are changed from now on; may be repeated. @throws UnknownBulkError, SchemaNotReadyError */
  async stop(id: string): Promise<BulkView> {
    return await this.#checked(async () => {
      if (!isId(id)) throw new UnknownBulkError(describe(id));
      await end(this.store, id);
      const found = await done(() => find(this.store, id));
      if (!found) throw new UnknownBulkError(describe(id));
      return found;
    });
  }

  /** From now on this process works off what is ordered, here or elsewhere. */
  watch(): void {
    if (this.#watching || this.#closing.signal.aborted) return;
    this.#watching = setInterval(() => void this.#look(), WATCH_MS).unref();
    void this.#look();
  }

  /** @internal Ends with the page that is under way, unless the database does not answer; others go on. */
  async close(): Promise<void> {
    clearInterval(this.#watching);
    this.#closing.abort();
    const ids = [...this.#running.keys()];
    if (ids.length === 0) return;
    const ending = Promise.all(this.#running.values())
      .then(() => letGo(this.store, ids, this.#name))
      .catch(() => undefined);
    await Promise.race([ending, sleep(FAREWELL_MS, undefined, { ref: false })]);
  }

  /** What cannot be seen now is seen later. */
  async #look(): Promise<void> {
    try {
      if (!(await this.store.offers(BULK_SINCE))) return;
      for (const id of await abandoned(this.store)) this.#begin(id);
    } catch {
      // The database is away, or lets us not: those who ask are told.
    }
  }

  #begin(id: string): void {
    if (this.#running.has(id) || this.#closing.signal.aborted) return;
    const working = this.#workOff(id).finally(() => {
      this.#running.delete(id);
      this.#slow.delete(id);
    });
    this.#running.set(id, working);
  }

  /** Never rejects. */
  async #workOff(id: string): Promise<void> {
    const { signal } = this.#closing;
    for (let failures = 0; !signal.aborted;) {
      try {
        if (!(await this.#page(id))) return;
        failures = 0;
      } catch (error) {
        if (isLockTimeout(error)) {
          this.#slow.set(id, PAGE);
          continue;
        }
        if (isCheckViolation(error)) await ensurePartitions(this.store).catch(() => undefined);
        // A database that is away is waited for; whoever has the lease then goes on.
        const away = error instanceof ConnectionLostError;
        if (!away && ++failures === MOST_FAILURES) return await this.#giveUp(id, error as Error);
        await sleep(PAUSE_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }

  async #giveUp(id: string, { message }: Error): Promise<void> {
    const problem = message.slice(0, MOST_WORDS);
    await giveUp(this.store, id, this.#name, problem).catch(() => undefined);
  }

  /** Answers whether there may be more to do, here. */
  async #page(id: string): Promise<boolean> {
    const slow = this.#slow.get(id) ?? 0;
    const tells: Done["tell"][] = [];
    const more = await this.store.asideTransaction(async (run) => {
      const runner = { run };
      const bulk = await takeUp(runner, id, this.#name);
      if (!bulk) return false;
      const left = bulk.expected - bulk.changed;
      const most = slow > 0 ? 1 : Math.min(PAGE, left);
      const filter = olderThan(filterFromJson(bulk.filter), new Date(bulk.createdAt));
      const { items, before } = await list(runner, filter, most, bulk.below, true);
      const { refused } = bulk;
      let changed = 0;
      for (const job of items) {
        if (endedSince(job, bulk.createdAt)) continue;
        const answer = await this.#do(runner, bulk.action, job.id, slow > 0, tells);
        if (DONE.has(answer)) changed++;
        else refused[answer] = (refused[answer] ?? 0) + 1;
      }
      const done = before === null || changed === left;
      const progress = { below: before ?? bulk.below, changed, refused, done };
      await saveProgress(runner, id, this.#name, progress);
      return !done;
    });
    for (const tell of tells) tell();
    if (slow > 0) this.#slow.set(id, slow - 1);
    return more;
  }

  /** One by one, somebody's lock keeps one job and not the page. */
  async #do(
    runner: Parameters<OneJob["on"]>[0],
    action: BulkView["action"],
    id: string,
    alone: boolean,
    tells: Done["tell"][],
  ): Promise<string> {
    if (alone) await mark(runner);
    try {
      const { answer, tell } = await this.one.on(runner, action, id);
      tells.push(tell);
      return answer;
    } catch (error) {
      // From place to place under a cancel, again and again: as good as locked.
      if (error instanceof JobMovesError) return LOCKED;
      if (!alone || !isLockTimeout(error)) throw error;
      await backToMark(runner);
      return LOCKED;
    }
  }

  async #survey(filter: ParsedJobFilter): Promise<BulkPreview> {
    const until = performance.now() + (looksInto(filter) ? SEARCH_MS : COUNT_MS);
    const inTime = () => performance.now() < until;
    const sample: JobSummary[] = [];
    let before: string | null = null;
    do {
      const page: Found = await this.searches.page(filter, SAMPLE - sample.length, before);
      sample.push(...page.items);
      before = page.before;
    } while (before !== null && sample.length < SAMPLE && inTime());
    let count = sample.length;
    while (before !== null && count <= MOST_JOBS && inTime()) {
      const rest: Counted = await this.searches.count(filter, before);
      count += rest.count;
      before = rest.before;
    }
    return { count, complete: before === null && count <= MOST_JOBS, sample };
  }

  async #checked<T>(work: () => Promise<T>): Promise<T> {
    try {
      await this.store.needs(BULK_SINCE, "bulk operations");
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, "bulk");
    }
  }
}

const LOCKED = "locked";

/** The answers of those that were changed. */
const DONE: ReadonlySet<string> = new Set(["queued", "cancelled", "requested", "deleted"]);

const isId = (id: unknown): id is string => typeof id === "string" && /^[1-9]\d{0,17}$/.test(id);

/** What came after the order is none of its jobs. */
const olderThan = (filter: ParsedJobFilter, time: Date): ParsedJobFilter => ({
  ...filter,
  createdBefore: filter.createdBefore && filter.createdBefore < time ? filter.createdBefore : time,
});

/** Nor is what came to its end after it: it was something else when it was counted. Both times are text to the microsecond. */
const endedSince = ({ finishedAt }: JobSummary, order: string): boolean =>
  finishedAt !== null && finishedAt >= order;
