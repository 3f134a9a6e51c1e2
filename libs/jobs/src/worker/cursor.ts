import type { Claim, LaneRequest } from "../store/transitions/claim.js";
import { type Position, Sweep } from "./sweep.js";

// Where the next claim of a queue starts to scan. Under a pinned snapshot the rows of finished jobs stay in
// the index: a scan from the start would walk them all, again and again. A hint only: commits land behind it
// all the time, so a short claim looks back; where that is dear, most look back a little, and those that look back as
// far as commits come late share a twentieth of the time. Every now and then what lies behind is searched, from the
// beginning at once as long as that is cheap, else in slices.

const START: Position = { at: "-infinity", id: "0" };
/** Where a process begins that cannot begin at the beginning. */
const LATELY_MS = 60_000;
const LOOK_BACK_MS = 1_000;
const LEAST_BACK_MS = 16;
/** What came late is followed by what comes as late, and a little later: so long after it. */
const LATE_FOR_MS = 10_000;
const LATER = 1.5;
const LOOK_BACK_AT_LATEST_MS = LOOK_BACK_MS / 4;
/** Searches take a twentieth of the time: those of at most 25 ms at once, every half second. */
const SEARCH_MS = 500;
const SEARCH_SHARE = 20;
const DEAR_SEARCH_MS = SEARCH_MS / SEARCH_SHARE;
/** Once may be anybody's fault. */
const DEAR_TIMES = 2;
/** Dear ones are as far apart, and so are their slices at most. */
const SEARCH_AT_LATEST_MS = 5_000;
/** Looking back is dear when such a claim takes so much longer than the quickest. */
const DEAR_MS = 1;
/** The part of the cost of an ordinary claim by which it follows that of the last one. */
const FOLLOWS = 0.25;

export class Cursor {
  readonly #positions = new Map<number, Position>();
  #lookBackMs = 0;
  #backMs = LOOK_BACK_MS;
  #quickest = Number.POSITIVE_INFINITY;
  /** Whether the last request looks back all the way though most do not; when one last did, and what that took. */
  #allTheWay = false;
  #lookedBackAt = Number.NEGATIVE_INFINITY;
  #lookBackCostMs = 0;
  /** So far behind the place of claims a job was found, and when: however dear, no look back is shorter for a while. */
  #lateMs = 0;
  #lateAt = Number.NEGATIVE_INFINITY;
  /** A claim has been made since that did not look back so far. */
  #owesLook = false;
  /** What an ordinary claim costs of late: the way to the server and back, and what else is not the walk of a search. */
  #ordinaryMs: number | undefined;
  /** By lane, for one whose handler is full has no part in the searches of the others: when the last one began … */
  readonly #searchedAt = new Map<number, number>();
  /** … what it took, and how many in a row were dear: once may be anybody's fault. */
  readonly #searchMs = new Map<number, number>();
  readonly #dearTimes = new Map<number, number>();
  /** When something was seen that may lie behind. */
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Searches that go on. */
  readonly #sweeps = new Map<number, Sweep>();
  /** Of the last request: when it was made, the lanes from the beginning, those of which it walks a slice. */
  #requestedAt = Number.NEGATIVE_INFINITY;
  readonly #fromStart = new Set<number>();
  readonly #sliced = new Set<number>();

  /** From where to scan these lanes now, or, of some of them, a slice to walk; `now` in monotonic ms. */
  requests(lanes: readonly { lane: number; room: number }[], now: number): LaneRequest[] {
    const slicedBefore = this.slicing;
    this.#requestedAt = now;
    this.#fromStart.clear();
    this.#sliced.clear();
    // One is due: those that would be soon go with it, or each of many lanes would make a claim dear.
    if (lanes.some(({ lane }) => this.#overdue(lane, now) >= 1))
      for (const { lane } of lanes) if (this.#overdue(lane, now) >= 0.5) this.#search(lane, now);
    // What has come meanwhile does not wait for the past.
    const due =
      slicedBefore || this.#sweeps.size === 0
        ? []
        : lanes.filter(({ lane }) => now >= (this.#sweeps.get(lane)?.dueAt ?? Infinity));
    this.#allTheWay = false;
    if (due.length > 0) return this.#slices(due);
    this.#allTheWay =
      this.#fromStart.size === 0 && this.#lookBackMs > 0 && now >= this.#nextLookBackAt;
    const backMs = this.#allTheWay ? LOOK_BACK_MS : this.#lookBackMs;
    return lanes.map(({ lane, room }) =>
      this.#fromStart.has(lane)
        ? { lane, room, backMs: 0, ...START }
        : { lane, room, backMs, ...(this.#positions.get(lane) ?? START) },
    );
  }

  /** Never, as long as all claims look back so far; well before what it is for lies further back, whatever it takes. */
  get #nextLookBackAt(): number {
    if (!this.#owesLook) return Number.POSITIVE_INFINITY;
    const apart = Math.min(SEARCH_SHARE * this.#lookBackCostMs, LOOK_BACK_AT_LATEST_MS);
    return this.#lookedBackAt + apart;
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

  /** To walk some lane from the beginning takes longer than it may. */
  get dear(): boolean {
    for (const lane of this.#dearTimes.keys()) if (this.isDear(lane)) return true;
    return false;
  }

  /** Finished jobs are in the way. */
  isDear(lane: number): boolean {
    return (this.#dearTimes.get(lane) ?? 0) >= DEAR_TIMES;
  }

  /** The time since the last search of a lane began, in parts of that until the next. */
  #overdue(lane: number, now: number): number {
    if (this.#sweeps.has(lane)) return 0;
    const last = this.#searchedAt.get(lane);
    if (last === undefined) return Number.POSITIVE_INFINITY;
    return (now - last) / Math.max(this.#every(lane, last), 1e-3);
  }

  /** The time from a search to the next; slices keep to their share by themselves. */
  #every(lane: number, last: number): number {
    const asked = last <= this.#askedAt;
    if (this.isDear(lane)) return asked ? 0 : SEARCH_AT_LATEST_MS;
    const shareMs = SEARCH_SHARE * (this.#searchMs.get(lane) ?? 0);
    return Math.min(Math.max(asked ? 0 : SEARCH_MS, shareMs), SEARCH_AT_LATEST_MS);
  }

  #search(lane: number, now: number): void {
    const position = this.#positions.get(lane);
    // A lane that was never claimed from is walked at once: what is in its way is not that of the others.
    if (!this.isDear(lane) || !position) this.#fromStart.add(lane);
    else this.#sweeps.set(lane, new Sweep(position, now));
  }

  /** Learns from the claim that {@link requests} was for. */
  learn(claims: readonly Claim[], full: boolean, costMs: number, now: number): void {
    if (this.slicing) return this.#walked(full, costMs, now);
    if (this.#allTheWay) this.#lookedBack(costMs, now);
    else if (this.#fromStart.size === 0) this.#ordinary(costMs, now);
    this.#quickest = Math.min(this.#quickest, costMs);
    for (const { lane, runAt, id, rescued } of claims) {
      const known = this.#positions.get(lane);
      // A full search from the beginning has met more than it could take: the rest lies right behind its last row.
      if ((this.#fromStart.has(lane) && full) || known === undefined || isBehind(known, runAt, id))
        this.#positions.set(lane, { at: runAt, id });
      else if (!rescued) this.#late(msOf(known.at) - msOf(runAt), now);
    }
    this.#searched(this.#fromStart, this.#walkOf(costMs));
    this.#lookBackMs = full ? 0 : Math.max(this.#backMs, this.#leastBack(now));
  }

  /** What lies further back than claims ever look is for the searches. */
  #late(ms: number, now: number): void {
    if (!(ms <= LOOK_BACK_MS)) return;
    if (ms < this.#lateMs && now - this.#lateAt < LATE_FOR_MS) return;
    this.#lateMs = ms;
    this.#lateAt = now;
  }

  #leastBack(now: number): number {
    if (now - this.#lateAt >= LATE_FOR_MS) return LEAST_BACK_MS;
    return Math.min(LOOK_BACK_MS, Math.max(LEAST_BACK_MS, this.#lateMs * LATER));
  }

  #ordinary(costMs: number, now: number): void {
    if (this.#lookBackMs >= LOOK_BACK_MS) this.#lookedBack(costMs, now);
    else this.#owesLook = true;
    this.#ordinaryMs =
      this.#ordinaryMs === undefined
        ? costMs
        : this.#ordinaryMs + FOLLOWS * (costMs - this.#ordinaryMs);
    if (this.#lookBackMs === 0) return;
    const dear = costMs - this.#quickest > DEAR_MS;
    if (dear) this.#lookBackLess();
    else this.#backMs = Math.min(LOOK_BACK_MS, this.#backMs * 2);
  }

  /** No further than this what comes late would be missed all the time. */
  #lookBackLess(): void {
    this.#backMs = Math.max(LEAST_BACK_MS, this.#backMs / 2);
  }

  #lookedBack(costMs: number, now: number): void {
    this.#lookedBackAt = now;
    this.#lookBackCostMs = this.#walkOf(costMs);
    this.#owesLook = false;
  }

  /** What a claim took to walk the past, as far as can be told. */
  #walkOf(costMs: number): number {
    return Math.max(0, costMs - (this.#ordinaryMs ?? 0));
  }

  /** These lanes were searched from the beginning; it took so long in all. */
  #searched(lanes: Iterable<number>, walkMs: number): void {
    for (const lane of lanes) {
      this.#took(lane, walkMs, this.#requestedAt);
      // One without a place would be back at the beginning each time.
      if (this.isDear(lane) && !this.#positions.has(lane))
        this.#positions.set(lane, { at: lately(), id: "0" });
    }
  }

  #walked(full: boolean, costMs: number, now: number): void {
    const walkMs = this.#walkOf(costMs) / this.#sliced.size;
    for (const lane of this.#sliced) {
      const sweep = this.#sweeps.get(lane)!;
      this.#rest(sweep, full ? 0 : walkMs, now);
      if (!sweep.walked(walkMs, full)) continue;
      this.#sweeps.delete(lane);
      this.#took(lane, sweep.walkedMs, sweep.beganAt);
    }
  }

  #took(lane: number, walkMs: number, beganAt: number): void {
    this.#searchedAt.set(lane, beganAt);
    this.#searchMs.set(lane, walkMs);
    const times = walkMs > DEAR_SEARCH_MS ? (this.#dearTimes.get(lane) ?? 0) + 1 : 0;
    this.#dearTimes.set(lane, times);
  }

  /** All sweeps together keep to the share. */
  #rest(sweep: Sweep, walkMs: number, now: number): void {
    sweep.dueAt = now + Math.min(SEARCH_SHARE * walkMs * this.#sweeps.size, SEARCH_AT_LATEST_MS);
  }

  /**
   * The claim that {@link requests} was for took too long and was cancelled: a snapshot held for long can put more dead
   * rows before the cursor than a statement may walk.
   */
  gaveUp(costMs: number, now: number): void {
    if (this.#fromStart.size > 0) {
      for (const lane of this.#fromStart) this.#dearTimes.set(lane, DEAR_TIMES);
      this.#searched(this.#fromStart, costMs);
    } else if (this.slicing) {
      for (const lane of this.#sliced) {
        const sweep = this.#sweeps.get(lane)!;
        sweep.gaveUp();
        this.#rest(sweep, costMs, now);
      }
    } else if (this.#allTheWay) this.#lookedBack(costMs, now);
    else this.#lookBackLess();
    this.#lookBackMs = Math.min(this.#lookBackMs, this.#backMs);
  }

  /** Something was seen that may lie behind: it is searched for as soon as its share of the time allows. */
  rescan(now: number): void {
    this.#askedAt = now;
  }

  /** In so many ms a claim of these lanes would go on with a search, or look back; undefined: neither is due. */
  pendingIn(lanes: readonly number[], now: number): number | undefined {
    const waits = lanes.flatMap((lane) => {
      const sweep = this.#sweeps.get(lane);
      if (sweep) return [sweep.dueAt - now];
      const last = this.#searchedAt.get(lane);
      return last === undefined || last > this.#askedAt
        ? []
        : [last + this.#every(lane, last) - now];
    });
    if (this.#owesLook && this.#lookBackMs > 0) waits.push(this.#nextLookBackAt - now);
    return waits.length === 0 ? undefined : Math.max(0, Math.min(...waits));
  }

  /** Where an idle look may start, when looking from the beginning is too dear. */
  position(lane: number): { at: string; backMs: number } {
    return { at: this.#positions.get(lane)?.at ?? START.at, backMs: LOOK_BACK_MS };
  }
}

/** Of a time in PostgreSQL's words, in UTC. */
const msOf = (at: string): number => Date.parse(`${at.slice(0, -3).replace(" ", "T")}Z`);

/** In PostgreSQL's words; by our own clock, which is near enough for a hint. */
const lately = (): string =>
  new Date(Date.now() - LATELY_MS).toISOString().replace("T", " ").replace("Z", "+00");

const isBehind = (known: Position, at: string, id: string): boolean =>
  known.at < at ||
  (known.at === at &&
    (known.id.length < id.length || (known.id.length === id.length && known.id < id)));
