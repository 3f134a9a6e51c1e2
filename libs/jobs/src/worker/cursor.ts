import type { Claim, LaneRequest } from "../store/transitions/claim.js";

// Where the next claim of a queue starts to scan. Under a pinned snapshot the rows of finished jobs stay in
// the index: a scan from the start would walk them all, again and again. A hint only: commits land behind it
// all the time, so a short claim looks back, and every now and then one starts from the beginning.

interface Position {
  at: string;
  id: string;
}

const START: Position = { at: "-infinity", id: "0" };
/** Where a process begins that cannot begin at the beginning. */
const LATELY_MS = 60_000;
const LOOK_BACK_MS = 1_000;
const RESCAN_MS = 500;
const RESCAN_AT_LATEST_MS = 5_000;
/** A rescan may take this share of the time. */
const RESCAN_SHARE = 20;
/** Looking back is dear when such a claim takes so much longer than the quickest. */
const DEAR_MS = 1;

export class Cursor {
  readonly #positions = new Map<number, Position>();
  #lookBackMs = 0;
  #backMs = LOOK_BACK_MS;
  /** By lane: one whose handler is full has no part in the rescans of the others. */
  readonly #rescannedAt = new Map<number, number>();
  #rescanCost = 0;
  #quickest = Number.POSITIVE_INFINITY;
  readonly #rescanning = new Set<number>();
  /** When something was seen that may lie behind. */
  #askedAt = Number.NEGATIVE_INFINITY;

  /** From where to scan these lanes now; `now` in monotonic ms. */
  requests(lanes: readonly { lane: number; room: number }[], now: number): LaneRequest[] {
    this.#rescanning.clear();
    // One is due: those that would be soon go with it, or each of many lanes would make a claim dear.
    if (lanes.some(({ lane }) => this.#overdue(lane, now) >= 1))
      for (const { lane } of lanes) if (this.#overdue(lane, now) >= 0.5) this.#rescanning.add(lane);
    return lanes.map(({ lane, room }) =>
      this.#rescanning.has(lane)
        ? { lane, room, backMs: 0, ...START }
        : { lane, room, backMs: this.#lookBackMs, ...(this.#positions.get(lane) ?? START) },
    );
  }

  /** The time since the last rescan of a lane, in parts of that until the next. */
  #overdue(lane: number, now: number): number {
    const last = this.#rescannedAt.get(lane);
    if (last === undefined) return Number.POSITIVE_INFINITY;
    const every = Math.max(last <= this.#askedAt ? 0 : RESCAN_MS, RESCAN_SHARE * this.#rescanCost);
    return (now - last) / Math.max(Math.min(every, RESCAN_AT_LATEST_MS), 1e-3);
  }

  /** Learns from the claim that {@link requests} was for. */
  learn(claims: readonly Claim[], full: boolean, costMs: number, now: number): void {
    if (this.#rescanning.size > 0) {
      for (const lane of this.#rescanning) this.#rescannedAt.set(lane, now);
      this.#rescanCost = costMs;
    } else if (this.#lookBackMs > 0) {
      const dear = costMs - this.#quickest > DEAR_MS;
      this.#backMs = dear ? this.#backMs / 2 : Math.min(LOOK_BACK_MS, this.#backMs * 2);
    }
    this.#quickest = Math.min(this.#quickest, costMs);
    for (const { lane, runAt, id } of claims) {
      const known = this.#positions.get(lane);
      // A full rescan has met more than it could take: the rest lies right behind its last row.
      if (
        (this.#rescanning.has(lane) && full) ||
        known === undefined ||
        isBehind(known, runAt, id)
      ) {
        this.#positions.set(lane, { at: runAt, id });
      }
    }
    this.#lookBackMs = full ? 0 : this.#backMs;
  }

  /**
   * The claim that {@link requests} was for took too long and was cancelled. If it was a rescan, the next ones must
   * not be: a snapshot held for long can put more dead rows before the cursor than a statement may walk.
   */
  gaveUp(costMs: number, now: number): void {
    for (const lane of this.#rescanning) {
      this.#rescannedAt.set(lane, now);
      // A process that has just begun knows no place: without one it would be back at the beginning each time.
      if (!this.#positions.has(lane)) this.#positions.set(lane, { at: lately(), id: "0" });
    }
    if (this.#rescanning.size > 0) this.#rescanCost = costMs;
    else this.#backMs /= 2;
    this.#lookBackMs = Math.min(this.#lookBackMs, this.#backMs);
  }

  /** Something was seen that may lie behind: the next claim starts from the beginning, unless that is dear. */
  rescan(now: number): void {
    this.#askedAt = now;
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
