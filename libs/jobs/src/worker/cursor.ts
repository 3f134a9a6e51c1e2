import type { Claim, LaneRequest } from "../store/transitions/claim.js";
import { type Position, Sweep } from "./sweep.js";

// Where the next claim of a queue starts to scan. Under a pinned snapshot the rows of finished jobs stay in
// the index: a scan from the start would walk them all, again and again. A hint only: commits land behind it
// all the time, so a short claim looks back, and every now and then what lies behind is searched, from the
// beginning at once as long as that is cheap, else in slices.

const START: Position = { at: "-infinity", id: "0" };
/** Where a process begins that cannot begin at the beginning. */
const LATELY_MS = 60_000;
const LOOK_BACK_MS = 1_000;
/** Searches take a twentieth of the time: those of at most 25 ms at once, every half second. */
const SEARCH_MS = 500;
const SEARCH_SHARE = 20;
const DEAR_SEARCH_MS = SEARCH_MS / SEARCH_SHARE;
/** Dear ones are as far apart, and so are their slices at most. */
const SEARCH_AT_LATEST_MS = 5_000;
/** Looking back is dear when such a claim takes so much longer than the quickest. */
const DEAR_MS = 1;

export class Cursor {
  readonly #positions = new Map<number, Position>();
  #lookBackMs = 0;
  #backMs = LOOK_BACK_MS;
  /** By lane: one whose handler is full has no part in the searches of the others. */
  readonly #searchedAt = new Map<number, number>();
  /** What the last search took in all. */
  #searchMs = 0;
  #quickest = Number.POSITIVE_INFINITY;
  /** When something was seen that may lie behind. */
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Searches that go on, what they have taken, and when their next slices may be walked. */
  readonly #sweeps = new Map<number, Sweep>();
  #sweptMs = 0;
  #nextSliceAt = Number.NEGATIVE_INFINITY;
  /** Of the last request: all that could be claimed from, those from the beginning, those of which it walks a slice. */
  #lanes: readonly number[] = [];
  readonly #fromStart = new Set<number>();
  readonly #sliced = new Set<number>();

  /** From where to scan these lanes now, or, of some of them, a slice to walk; `now` in monotonic ms. */
  requests(lanes: readonly { lane: number; room: number }[], now: number): LaneRequest[] {
    this.#lanes = lanes.map(({ lane }) => lane);
    this.#fromStart.clear();
    this.#sliced.clear();
    // One is due: those that would be soon go with it, or each of many lanes would make a claim dear.
    if (this.#lanes.some((lane) => this.#overdue(lane, now) >= 1))
      for (const lane of this.#lanes) if (this.#overdue(lane, now) >= 0.5) this.#search(lane);
    if (now >= this.#nextSliceAt) {
      const swept = lanes.filter(({ lane }) => this.#sweeps.has(lane));
      if (swept.length > 0) return this.#slices(swept);
    }
    return lanes.map(({ lane, room }) =>
      this.#fromStart.has(lane)
        ? { lane, room, backMs: 0, ...START }
        : { lane, room, backMs: this.#lookBackMs, ...(this.#positions.get(lane) ?? START) },
    );
  }

  #slices(lanes: readonly { lane: number; room: number }[]): LaneRequest[] {
    this.#fromStart.clear();
    return lanes.map(({ lane, room }) => {
      this.#sliced.add(lane);
      const { from, slice } = this.#sweeps.get(lane)!;
      return { lane, room, at: from.at, id: "0", ...slice };
    });
  }

  /** The last request was for slices of the past: what can be claimed at the ends of the lanes is not seen by it. */
  get slicing(): boolean {
    return this.#sliced.size > 0;
  }

  /** To walk from the beginning takes longer than it may: finished jobs are in the way. */
  get dear(): boolean {
    return this.#searchMs > DEAR_SEARCH_MS;
  }

  /** The time since the last search of a lane, in parts of that until the next. */
  #overdue(lane: number, now: number): number {
    if (this.#sweeps.has(lane)) return 0;
    const last = this.#searchedAt.get(lane);
    if (last === undefined) return Number.POSITIVE_INFINITY;
    return (now - last) / Math.max(this.#every(last), 1e-3);
  }

  /** The time from a search to the next; slices keep to their share by themselves. */
  #every(last: number): number {
    const asked = last <= this.#askedAt;
    if (this.dear) return asked ? 0 : SEARCH_AT_LATEST_MS;
    return Math.max(asked ? 0 : SEARCH_MS, SEARCH_SHARE * this.#searchMs);
  }

  #search(lane: number): void {
    const position = this.#positions.get(lane);
    // A lane that was never claimed from is walked at once: what is in its way is not that of the others.
    if (!this.dear || !position) this.#fromStart.add(lane);
    else this.#sweeps.set(lane, new Sweep(position));
  }

  /** Learns from the claim that {@link requests} was for. */
  learn(claims: readonly Claim[], full: boolean, costMs: number, now: number): void {
    if (this.slicing) return this.#walked(full, costMs, now);
    if (this.#fromStart.size === 0 && this.#lookBackMs > 0) {
      const dear = costMs - this.#quickest > DEAR_MS;
      this.#backMs = dear ? this.#backMs / 2 : Math.min(LOOK_BACK_MS, this.#backMs * 2);
    }
    this.#quickest = Math.min(this.#quickest, costMs);
    for (const { lane, runAt, id } of claims) {
      const known = this.#positions.get(lane);
      // A full search from the beginning has met more than it could take: the rest lies right behind its last row.
      if ((this.#fromStart.has(lane) && full) || known === undefined || isBehind(known, runAt, id))
        this.#positions.set(lane, { at: runAt, id });
    }
    if (this.#fromStart.size > 0) this.#searched(this.#fromStart, costMs, now);
    this.#lookBackMs = full ? 0 : this.#backMs;
  }

  /** These lanes have been searched; the search took so long in all. */
  #searched(lanes: Iterable<number>, costMs: number, now: number): void {
    this.#searchMs = costMs;
    for (const lane of lanes) {
      this.#searchedAt.set(lane, now);
      // One without a place would be back at the beginning each time.
      if (this.dear && !this.#positions.has(lane))
        this.#positions.set(lane, { at: lately(), id: "0" });
    }
    this.#rest(costMs, now);
  }

  #walked(full: boolean, costMs: number, now: number): void {
    this.#sweptMs += costMs;
    // There is more in these slices than could be taken: once more, at once.
    if (full) return void (this.#nextSliceAt = now);
    this.#rest(costMs, now);
    const ended = [...this.#sliced].filter((lane) =>
      this.#sweeps.get(lane)!.walked(costMs / this.#sliced.size),
    );
    for (const lane of ended) {
      this.#sweeps.delete(lane);
      this.#searchedAt.set(lane, now);
    }
    if (this.#sweeps.size > 0) return;
    this.#searchMs = this.#sweptMs;
    this.#sweptMs = 0;
  }

  #rest(costMs: number, now: number): void {
    this.#nextSliceAt = now + Math.min(SEARCH_SHARE * costMs, SEARCH_AT_LATEST_MS);
  }

  /**
   * The claim that {@link requests} was for took too long and was cancelled: a snapshot held for long can put more dead
   * rows before the cursor than a statement may walk.
   */
  gaveUp(costMs: number, now: number): void {
    if (this.#fromStart.size > 0) this.#searched(this.#fromStart, costMs, now);
    else if (this.slicing) {
      for (const lane of this.#sliced) this.#sweeps.get(lane)!.gaveUp();
      this.#rest(costMs, now);
    } else this.#backMs /= 2;
    this.#lookBackMs = Math.min(this.#lookBackMs, this.#backMs);
  }

  /** Something was seen that may lie behind: it is searched for as soon as its share of the time allows. */
  rescan(now: number): void {
    this.#askedAt = now;
  }

  /** To look at these lanes from the beginning took so long: searches are likely to take as long. */
  lookTook(costMs: number, lanes: readonly number[], now: number): void {
    if (costMs > Math.max(DEAR_SEARCH_MS, this.#searchMs)) this.#searched(lanes, costMs, now);
  }

  /** In so many ms a claim would go on with a search; undefined: none is under way, or asked for. */
  pendingIn(now: number): number | undefined {
    const waits = this.#lanes.flatMap((lane) => {
      if (this.#sweeps.has(lane)) return [this.#nextSliceAt - now];
      const last = this.#searchedAt.get(lane);
      return last === undefined || last > this.#askedAt ? [] : [last + this.#every(last) - now];
    });
    return waits.length === 0 ? undefined : Math.max(0, Math.min(...waits));
  }

  /** Where an idle look may start, when looking from the beginning is too dear. */
  position(lane: number): { at: string; backMs: number } {
    return { at: this.#positions.get(lane)?.at ?? START.at, backMs: LOOK_BACK_MS };
  }
}

/** In PostgreSQL's words; by our own clock, which is near enough for a hint. */
const lately = (): string =>
  new Date(Date.now() - LATELY_MS).toISOString().replace("T", " ").replace("Z", "+00");

const isBehind = (known: Position, at: string, id: string): boolean =>
  known.at < at ||
  (known.at === at &&
    (known.id.length < id.length || (known.id.length === id.length && known.id < id)));
