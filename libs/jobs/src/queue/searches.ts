import { SearchesBusyError } from "../job/errors.js";
import type { ParsedJobFilter } from "../job/job-filter.js";
import {
  LOOKED_INTO_AT_MOST,
  type ListedPage,
  countPage,
  list,
  looksInto,
} from "../store/reads/list.js";
import type { Store } from "../store/store.js";

// Lists and counts of jobs, on the connection that all reads of a process share. What has to be looked into, payloads and
// errors, is looked at in short turns, between which the others come; a turn ends with its time, in the database.

/** A page that looks into jobs takes no longer, but for its last turn. */
const SEARCH_MS = 500;
const MOST_AT_ONCE = 2;
const MOST_WAITING = 20;

/** What one search has found. */
export type Found = Omit<ListedPage, "looked">;

/** How many of the next jobs fit; `before`: where to go on, null at the end. */
export interface Counted {
  count: number;
  before: string | null;
}

/** Looks for jobs, for all of a process who ask. */
export class Searches {
  #underWay = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(private readonly store: Store) {}

  /** @throws SearchesBusyError */
  async page(filter: ParsedJobFilter, limit: number, after: string | null): Promise<Found> {
    const archive = await this.store.offers(2);
    const turn = (left: number, before: string | null, most?: number) =>
      this.store.asideTransaction((run) => list({ run }, filter, left, before, archive, most));
    if (!looksInto(filter)) return without(await turn(limit, after));
    return await this.#oneOfFew(async () => {
      const items: Found["items"] = [];
      const until = performance.now() + SEARCH_MS;
      let left = LOOKED_INTO_AT_MOST;
      let before = after;
      for (;;) {
        const found = await turn(limit - items.length, before, left);
        items.push(...found.items);
        left -= found.looked;
        const full = items.length === limit;
        const over = left <= 0 || performance.now() >= until;
        if (full || found.before === null || over)
          return {
            items,
            before: found.before,
            searchedBackTo: full ? null : found.searchedBackTo,
          };
        before = found.before;
      }
    });
  }

  /** Those of one page; one that looks into jobs ends with its time. @throws SearchesBusyError */
  async count(filter: ParsedJobFilter, after: string | null): Promise<Counted> {
    const turn = (before: string | null) =>
      this.store.asideTransaction((run) => countPage({ run }, filter, before));
    if (!looksInto(filter)) return await turn(after);
    return await this.#oneOfFew(async () => {
      const until = performance.now() + SEARCH_MS;
      let count = 0;
      let before = after;
      do {
        const found = await turn(before);
        count += found.count;
        before = found.before;
      } while (before !== null && performance.now() < until);
      return { count, before };
    });
  }

  async #oneOfFew<T>(work: () => Promise<T>): Promise<T> {
    if (this.#underWay < MOST_AT_ONCE) this.#underWay++;
    else {
      if (this.#waiting.length >= MOST_WAITING)
        throw new SearchesBusyError(MOST_AT_ONCE, MOST_WAITING);
      // Whoever ends leaves his place to the next one.
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#underWay--;
    }
  }
}

const without = ({ items, before, searchedBackTo }: ListedPage): Found => ({
  items,
  before,
  searchedBackTo,
});
