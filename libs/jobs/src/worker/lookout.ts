import type { Session } from "../pg/session.js";
import { isMissingSchema, isStatementTimeout } from "../pg/sqlstate.js";
import { QUARANTINED, lanesOf } from "../store/queues/lanes.js";
import type { Pause } from "../store/queues/pauses.js";
import { type LookLane, look } from "../store/queues/look.js";
import { monotonic } from "./held.js";
import { type Outage, unanswered } from "./outage.js";
import type { QueueWorker } from "./queue-worker.js";
import { TickTimer } from "./tick-timer.js";

// Looks what there is to do, every poll interval: one statement over all queues. Polling is the truth; hints and
// timers only make it quicker.

/** A look that takes a larger share of the poll interval starts at the cursors, most of the time. */
const DEAR_SHARE = 20;
const RESCAN_AT_LATEST_MS = 5_000;
/** Once may be anybody's fault. */
const DEAR_LOOKS = 2;
/** Looks that follow a claim are so far apart: a busy queue is not looked at all the time. */
const NEXT_LOOK_MS = 50;
const MAX_DOUBLINGS = 3;

export interface LookoutPorts {
  session: Session;
  /** Where lanes are read from. */
  front: Session;
  outage: Outage;
  pollMs: number;
  queues: ReadonlyMap<number, QueueWorker>;
  open(): boolean;
  /** The poll timer has fired. */
  ticked(): void;
  mayTakeOver(): boolean;
  /** What of these queues is paused. */
  pauses(queueIds: readonly number[]): Promise<Pause[]>;
  /** Those of them that have limits. */
  limited(queueIds: readonly number[]): Promise<ReadonlySet<number>>;
  /** The server's clock, as an answer has just told it; in ms. */
  clock(now: number): void;
  /** A queue has something that can be claimed. */
  found(queue: QueueWorker): void;
  /** Queues in which a quarantined job waits. */
  suspects(queues: ReadonlySet<number>): void;
  chore(name: string): void;
  /** Whether there can be schedules to see to. */
  schedules(): boolean;
  /** Sees to the schedules that are due, and answers whether there were any; never rejects. */
  fire(): Promise<boolean>;
  /** A queue that this process serves is not there any more, or not what it was. */
  gone(): void;
}

export class Lookout {
  /** When the poll timer last fired, and when the database last answered; monotonic ms. */
  tickedAt = monotonic();
  answeredAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #nextTimer: NodeJS.Timeout | undefined;
  /** Queues whose next claim hides what is due a little later. */
  readonly #unseen = new Set<QueueWorker>();
  readonly #dueTimers = new Map<QueueWorker, { at: number; timer: NodeJS.Timeout }>();
  readonly #ticks: TickTimer;
  /** Since when the step goes on that is under way; monotonic ms. */
  turnSince: number | undefined;
  #looking = false;
  #again = false;
  #cost = 0;
  #wholeAt = Number.NEGATIVE_INFINITY;
  /** So many whole looks in a row were dear. */
  #dearLooks = 0;
  #searchedAt = Number.NEGATIVE_INFINITY;
  #probed = 0;

  constructor(private readonly ports: LookoutPorts) {
    this.#ticks = new TickTimer(
      async () => ports.open() && (await ports.fire()),
      () => void this.look(),
    );
  }

  start(): void {
    clearTimeout(this.#timer);
    this.tickedAt = monotonic();
    void this.look();
    this.ports.ticked();
    // Not all replicas at once.
    this.#timer = setTimeout(() => this.start(), this.ports.pollMs * (0.95 + Math.random() * 0.1));
  }

  stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#nextTimer);
    this.#ticks.stop();
    for (const { timer } of this.#dueTimers.values()) clearTimeout(timer);
    this.#dueTimers.clear();
  }

  /** Looks now; while a look is under way, once more after it. */
  async look(): Promise<void> {
    if (!this.ports.open()) return;
    this.#again = true;
    if (this.#looking) return;
    this.#looking = true;
    try {
      while (this.#again && this.ports.open()) {
        this.#again = false;
        this.#goesOn();
        await this.#lookOnce();
      }
    } catch (error) {
      this.ports.outage.complain(unanswered(error), error);
      if (isMissingSchema(error)) this.ports.gone();
    } finally {
      this.#looking = false;
      this.turnSince = undefined;
    }
  }

  #goesOn(): void {
    this.turnSince = monotonic();
  }

  /** A job of this queue is due in so many ms. Beyond the poll interval it is seen again in time. */
  dueIn(queue: QueueWorker, ms: number): void {
    if (ms > this.ports.pollMs || !this.ports.open()) return;
    const at = performance.now() + ms;
    const known = this.#dueTimers.get(queue);
    if (known && known.at <= at) return;
    clearTimeout(known?.timer);
    const timer = setTimeout(
      () => {
        this.#dueTimers.delete(queue);
        this.#due(queue);
      },
      Math.ceil(ms) + 1,
    ).unref();
    this.#dueTimers.set(queue, { at, timer });
  }

  /** The queue was claimed from: what is due next can be seen now. */
  claimed(queue: QueueWorker): void {
    if (!this.#unseen.delete(queue)) return;
    clearTimeout(this.#nextTimer);
    // What is seen and cannot be taken (a row that somebody has locked) is not looked at in a tight circle.
    const apart = NEXT_LOOK_MS * 2 ** Math.min(queue.barren, MAX_DOUBLINGS);
    const ms = Math.max(0, this.answeredAt + apart - monotonic());
    this.#nextTimer = setTimeout(() => void this.look(), ms).unref();
  }

  /** Pauses end by the clock: the row stays, and nobody says so. */
  #reopen(queue: QueueWorker): void {
    const ms = queue.reopen(monotonic());
    if (ms !== undefined) this.dueIn(queue, ms);
  }

  /** A look tells of the first job of a queue only, as long as nobody has taken it. */
  #due(queue: QueueWorker): void {
    this.#reopen(queue);
    // What a limit keeps is claimed again in its own time.
    if (queue.limits?.againMs === undefined) this.#unseen.add(queue);
    this.ports.found(queue);
  }

  async #lookOnce(): Promise<void> {
    const { session, queues } = this.ports;
    let from = monotonic();
    const whole = this.#worthWhole(from);
    const asked = new Set(queues.keys());
    const lanes = this.#lanes(whole);
    const looking = session.exclusive(async (run) => {
      // What it waited for in line is not its cost.
      from = monotonic();
      const { ports } = this;
      const options = { takeOver: ports.mayTakeOver(), schedules: ports.schedules() };
      return await look({ run }, [...asked], lanes, options);
    });
    const seen = await looking.catch((error: unknown) => {
      // Too many dead rows before the cursors: the next looks start at them, or none would ever be answered.
      if (whole && isStatementTimeout(error)) this.#lookedWhole(from);
      throw error;
    });
    this.#goesOn();
    this.answeredAt = monotonic();
    this.ports.clock(seen.now);
    this.ports.outage.over();
    if (whole) this.#lookedWhole(from);
    this.#search(from);
    // One that has come meanwhile is seen by the next look.
    const known = [...queues].filter(([id]) => asked.has(id));
    if (known.some(([id, { settings }]) => seen.names.get(id) !== settings.name))
      return this.ports.gone();
    if (!(await this.#readLanes(known, seen.versions))) return this.ports.gone();
    for (const [, queue] of known) this.#reopen(queue);
    for (const [queueId, ms] of seen.due) {
      const queue = queues.get(queueId)!;
      if (ms > 0) this.dueIn(queue, ms);
      else {
        // It may lie behind the cursor: a transaction that was open for long, an expired lease.
        queue.cursor.rescan(this.answeredAt);
        this.#due(queue);
      }
    }
    this.ports.suspects(seen.suspects);
    for (const chore of seen.chores) this.ports.chore(chore);
    // Beyond the poll interval it is seen again in time.
    if (seen.schedule !== undefined && seen.schedule <= this.ports.pollMs)
      this.#ticks.in(seen.schedule);
  }

  /** Whether it may start at the beginning of the lanes. */
  #worthWhole(now: number): boolean {
    return (
      this.#cost * DEAR_SHARE < this.ports.pollMs || now - this.#wholeAt >= RESCAN_AT_LATEST_MS
    );
  }

  #lookedWhole(from: number): void {
    this.#wholeAt = monotonic();
    this.#cost = this.#wholeAt - from;
    this.#dearLooks = this.#cost * DEAR_SHARE < this.ports.pollMs ? 0 : this.#dearLooks + 1;
  }

  /**
   * What a look does not see is searched for by claims, a little at a time. Where looks are dear, and it is not known
   * which of the queues make them so, the claims of one after another find out.
   */
  #search(now: number): void {
    if (now - this.#searchedAt < RESCAN_AT_LATEST_MS) return;
    this.#searchedAt = now;
    const queues = [...this.ports.queues.values()];
    const unknown = queues.filter(({ cursor }) => !cursor.dear);
    const searching = queues.filter(({ cursor }) => cursor.dear);
    if (this.#dearLooks >= DEAR_LOOKS && unknown.length > 0)
      searching.push(unknown[this.#probed++ % unknown.length]!);
    for (const queue of searching) {
      queue.cursor.rescan(now);
      this.ports.found(queue);
    }
  }

  #lanes(whole: boolean): LookLane[] {
    const start = { at: "-infinity", backMs: 0 };
    return [...this.ports.queues].flatMap(([queueId, queue]) => {
      const open = queue.toLookAt();
      // What is due a little later in the others is to be seen once they have been claimed from.
      if (open.length < queue.lanes.length) this.#unseen.add(queue);
      return [
        ...open.map(({ lane: { lane } }) => ({
          queueId,
          lane,
          ...(whole && !queue.cursor.dear ? start : queue.cursor.position(lane)),
        })),
        // A suspect is seen behind a full handler too: it waits for this process to be empty, not for a slot.
        ...queue.lanes.map(({ lane: { lane } }) => ({
          queueId,
          lane: lane + QUARANTINED,
          ...start,
        })),
      ];
    });
  }

  /** Answers false when lanes that are known are others by now. */
  async #readLanes(
    known: readonly [number, QueueWorker][],
    versions: ReadonlyMap<number, number>,
  ): Promise<boolean> {
    const { queues, front } = this.ports;
    const stale = known
      .filter(([id, queue]) => queue.version !== versions.get(id))
      .map(([id]) => id);
    if (stale.length === 0) return true;
    const lanes = await lanesOf(front, stale);
    this.#goesOn();
    // Read after the version, they are those of it, or younger: then it is read again.
    const paused = await this.ports.pauses(stale);
    this.#goesOn();
    const limited = await this.ports.limited(stale);
    const now = monotonic();
    for (const id of stale) {
      const ofQueue = lanes.filter((lane) => lane.queueId === id);
      const pauses = paused.filter(({ queueId }) => queueId === id);
      const standing = { pauses, limited: limited.has(id), now };
      if (!queues.get(id)!.serve(ofQueue, versions.get(id)!, standing)) return false;
    }
    // Lanes that were not asked about may have something.
    for (const id of stale) this.ports.found(queues.get(id)!);
    this.#again = true;
    return true;
  }
}
