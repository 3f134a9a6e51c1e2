import type { Handler } from "../handler/handler.js";
import { type Lane, QUARANTINED, laneOf } from "../store/queues/lanes.js";
import type { Claim, LaneRequest } from "../store/transitions/claim.js";
import type { Attempt } from "./attempt.js";
import type { Pause } from "../store/queues/pauses.js";
import { Cursor } from "./cursor.js";
import { QueueLimits } from "./limits.js";
import { HandlerSlots, ServedLane, byPriority } from "./served-lane.js";
import { Trickle } from "./trickle.js";

// One queue in one process: how many jobs it may hold, which wait for a slot, which lanes to ask next.
// It asks the worker for claims and starts; it never talks to the database itself.

export interface QueueSettings {
  name: string;
  id: number;
  concurrency: number;
  prefetch: number;
}

export interface ClaimAsk {
  lanes: LaneRequest[];
  room: number;
  /** It is for a quarantined job: the cursor learns nothing of it. */
  suspect?: true;
}

/** What is said of a queue beside its lanes. */
export interface Standing {
  pauses?: readonly Pause[];
  /** It has limits. */
  limited?: boolean;
  /** When pauses were read; monotonic ms. */
  now?: number;
}

export class QueueWorker {
  readonly cursor = new Cursor();
  readonly trickle = new Trickle();
  /** Claims go within limits that hold over all processes; undefined: there are none. */
  limits: QueueLimits | undefined;
  /** The queue's version that the lanes were read for. */
  version = 0;
  claiming = false;
  /** So many claims in a row brought nothing. */
  barren = 0;
  /** Other processes were not told of jobs, since this one had a free slot. */
  othersWait = false;
  /** The last claim brought as much as it could: there may be more. */
  leftOver = false;
  /** Those that may be claimed from: all but the paused ones. */
  #lanes: ServedLane[] = [];
  readonly #byLane = new Map<number, ServedLane>();
  #turn = 0;
  held = 0;
  running = 0;
  waiting = 0;
  /** Bodies that go on though their attempt is over: they may never end, and keep their slots. */
  stuck = 0;

  constructor(
    readonly settings: QueueSettings,
    private readonly handlers: ReadonlyMap<string, HandlerSlots>,
  ) {}

  /**
   * The lanes of kinds that are handled here; those of other kinds are never walked. Answers false, and nothing has
   * changed, when a lane that is served is another one by now: its number was given again.
   */
  serve(
    lanes: readonly Lane[],
    version: number,
    { pauses = [], limited = false, now = 0 }: Standing = {},
  ): boolean {
    const byNumber = new Map(lanes.map((lane) => [lane.lane, lane]));
    for (const { lane: known } of this.#byLane.values()) {
      const lane = byNumber.get(known.lane);
      if (lane?.kind !== known.kind || lane.priority !== known.priority) return false;
    }
    this.version = version;
    this.limits = limited ? (this.limits ?? new QueueLimits()) : undefined;
    for (const lane of lanes) {
      const slots = this.handlers.get(lane.kind);
      if (slots && !this.#byLane.has(lane.lane))
        this.#byLane.set(lane.lane, new ServedLane(lane, slots));
    }
    for (const served of this.#byLane.values()) {
      const ofIt = pauses.filter(({ kind }) => kind === undefined || kind === served.lane.kind);
      served.closedUntil =
        now + Math.max(Number.NEGATIVE_INFINITY, ...ofIt.map(({ forMs }) => forMs));
    }
    this.reopen(now);
    this.#arrange();
    this.want();
    return true;
  }

  /** Lanes whose pause is over take part again; answers in how many ms the next one will. */
  reopen(now: number): number | undefined {
    let next = Number.POSITIVE_INFINITY;
    let moved = false;
    for (const served of this.#byLane.values()) {
      const closed = served.closedUntil > now;
      if (closed) next = Math.min(next, served.closedUntil);
      else if (served.closed) served.more = true;
      moved ||= closed !== served.closed;
      served.closed = closed;
    }
    if (moved) this.#arrange();
    return Number.isFinite(next) ? next - now : undefined;
  }

  #arrange(): void {
    const all = [...this.#byLane.values()];
    this.#lanes = all.filter(({ closed }) => !closed).sort(byPriority);
  }

  get lanes(): readonly ServedLane[] {
    return this.#lanes;
  }

  /** There may be something to claim, in any lane. */
  want(): void {
    for (const served of this.#lanes) served.more = true;
  }

  /** Whether a claim could bring something that there is room for. */
  get hungry(): boolean {
    return this.#lanes.some(({ more, slots }) => more && slots.open) && this.room > 0;
  }

  /** Nothing is known of that could be claimed and started here; lanes of full handlers do not count. */
  get empty(): boolean {
    return this.#lanes.every(({ more, slots }) => !more || slots.held >= slots.usable);
  }

  /** In so many ms a claim is worth while, unasked; undefined: only a hint or a look can tell. */
  againIn(now: number): number | undefined {
    const lanes = this.#lanes.filter(({ slots }) => slots.held < slots.usable);
    const pendingMs = this.cursor.pendingIn(
      lanes.map(({ lane }) => lane.lane),
      now,
    );
    const waits = [this.trickle.pauseMs, pendingMs, this.limits?.againMs].filter(
      (ms) => ms !== undefined,
    );
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  /** The lanes that a look is worth: those of full handlers are claimed from as soon as these have a slot. */
  toLookAt(): ServedLane[] {
    return this.#lanes.filter((served) => {
      const startable = served.slots.held < served.slots.usable;
      if (!startable) served.more = true;
      return startable;
    });
  }

  /** Whether a claim is of the kind that its lane is known for. */
  fits(claim: Claim): boolean {
    return this.#served(claim).lane.kind === claim.kind;
  }

  handlerOf(claim: Claim): Handler {
    return this.#served(claim).slots.handler;
  }

  /** How many more may be claimed now; 0 as long as a claim would be too small to be worth a statement. */
  get room(): number {
    const usable = this.settings.concurrency - this.stuck;
    if (usable <= 0) return 0;
    const most = usable + this.#prefetch;
    const room = most - this.held;
    const worthIt = room * 4 >= most || this.held < usable;
    return worthIt ? Math.max(0, room) : 0;
  }

  /** A claim could bring most of what this process can run beside its long jobs. */
  get mostlyFree(): boolean {
    const long = this.limits?.long ?? 0;
    return (this.held - long) * 4 <= this.settings.concurrency - long;
  }

  /** What to claim now; undefined when there is no room, or no lane that could start one. */
  ask(now: number): ClaimAsk | undefined {
    const { room } = this;
    if (room === 0) return undefined;
    // Claimed ahead for full handlers: all of them together no more than the prefetch, or they would take the
    // room of those that could start.
    let ahead = this.#prefetch - this.#beyond;
    // Lanes of one handler share its slots: the first of them is asked for all, the next ones when it is empty.
    const promised = new Map<HandlerSlots, number>();
    const open = this.#inTurn().flatMap((served) => {
      const { lane, slots } = served;
      if (!served.more) return [];
      const taken = slots.held + (promised.get(slots) ?? 0);
      const startable = Math.max(0, slots.usable - taken);
      const more = Math.min(slots.usable, 2 * slots.usable - taken, Math.max(0, ahead));
      const share = Math.min(room, startable + Math.max(0, more));
      if (share <= 0) return [];
      ahead -= Math.max(0, share - startable);
      promised.set(slots, (promised.get(slots) ?? 0) + share);
      // What is enqueued from now on says so itself.
      served.more = false;
      return [{ lane: lane.lane, room: share }];
    });
    if (open.length === 0) return undefined;
    const lanes = this.cursor.requests(open, now);
    if (this.cursor.slicing) for (const { lane } of open) this.#byLane.get(lane)!.more = true;
    return { room, lanes };
  }

  /** What a claim has brought: the cursor goes on, and where it was full there may be more. */
  learn(ask: ClaimAsk, claims: readonly Claim[], costMs: number, now: number): void {
    const perLane = new Map<number, number>();
    for (const { lane } of claims) perLane.set(lane, (perLane.get(lane) ?? 0) + 1);
    if (ask.suspect) return;
    if (!this.cursor.slicing) {
      this.barren = claims.length > 0 ? 0 : this.barren + 1;
      this.trickle.learn(claims.length, costMs, now);
    }
    const all = claims.length >= ask.room;
    const full = ask.lanes.filter(({ lane, room }) => all || (perLane.get(lane) ?? 0) >= room);
    for (const { lane } of full) this.#byLane.get(lane)!.more = true;
    this.leftOver = full.length > 0;
    this.cursor.learn(claims, full.length > 0, costMs, now);
  }

  /** One quarantined job, of the lanes that start it once this process is empty; undefined when none does. */
  askSuspect(): ClaimAsk | undefined {
    if (this.stuck >= this.settings.concurrency) return undefined;
    const free = this.#lanes.filter(({ slots }) => slots.usable > 0);
    if (free.length === 0) return undefined;
    const lanes = free.map(({ lane }) => ({
      lane: lane.lane + QUARANTINED,
      at: "-infinity",
      id: "0",
      backMs: 0,
      room: 1,
    }));
    return { room: 1, lanes, suspect: true };
  }

  take(attempt: Attempt): void {
    const served = this.#served(attempt.claim);
    this.held++;
    this.waiting++;
    served.slots.held++;
    served.waiting.push(attempt);
    this.limits?.began(attempt.claim.id);
  }

  /** The next claim that has a slot; it counts as running from now on. */
  next(): Attempt | undefined {
    if (this.waiting === 0 || this.running >= this.settings.concurrency) return undefined;
    const served = this.#lanes.find(({ waiting, slots }) => waiting.length > 0 && slots.free);
    const attempt = served?.waiting.shift();
    if (!served || !attempt) return undefined;
    this.waiting--;
    this.running++;
    served.slots.running++;
    return attempt;
  }

  /**
   * Jobs of this handler that gather wait in vain, or keep others from starting: no slot is free, and all are with jobs that
   * gather (so many), or a job of another handler waits for one; or a limit lets nothing start.
   */
  stuckFor(handler: Handler, gathered: number): boolean {
    if (this.running >= this.settings.concurrency) {
      if (gathered >= this.running) return true;
      const others = ({ waiting, slots }: ServedLane) =>
        waiting.length > 0 && slots.handler !== handler && slots.free;
      if (this.#lanes.some(others)) return true;
    }
    return handler.batch?.limited === true && this.limits?.reached === true;
  }

  /** Its body has ended: the slot is free. */
  ended(attempt: Attempt): void {
    const { slots } = this.#served(attempt.claim);
    this.running--;
    slots.running--;
    if (attempt.phase !== "over") return;
    this.stuck--;
    slots.stuck--;
  }

  /** It is settled or lost: this process does not hold it any more. `runs`: its body does not know yet. */
  over(attempt: Attempt, runs = false): void {
    const { slots } = this.#served(attempt.claim);
    this.held--;
    slots.held--;
    if (this.limits) {
      this.limits.ended(attempt.claim.id);
      this.want();
    }
    if (!runs) return;
    this.stuck++;
    slots.stuck++;
  }

  /** Some of its lanes are paused. */
  get pausing(): boolean {
    return this.#lanes.length < this.#byLane.size;
  }

  /** Its lane is paused. */
  pauses({ claim }: Attempt): boolean {
    return this.#served(claim).closed;
  }

  /** It waited in vain: lost, or handed back. */
  forgetWaiting(attempt: Attempt): void {
    const { waiting } = this.#served(attempt.claim);
    const at = waiting.indexOf(attempt);
    if (at === -1) return;
    waiting.splice(at, 1);
    this.waiting--;
  }

  /** All that wait for a slot; they are not waiting any more. */
  takeWaiting(): Attempt[] {
    this.waiting = 0;
    return [...this.#byLane.values()].flatMap(({ waiting }) => waiting.splice(0));
  }

  /** Those that wait for slots which may never be free again, or are paused; they are not waiting any more. */
  takeStranded(): Attempt[] {
    if (this.waiting === 0) return [];
    if (this.stuck >= this.settings.concurrency) return this.takeWaiting();
    const stranded = [...this.#byLane.values()].flatMap((served) =>
      served.slots.usable > 0 && !served.closed ? [] : served.waiting.splice(0),
    );
    this.waiting -= stranded.length;
    return stranded;
  }

  /** What waits here for a slot would keep others from starting. */
  get #prefetch(): number {
    return this.limits ? 0 : this.settings.prefetch;
  }

  /** How many claims are held that their handlers have no slots for. */
  get #beyond(): number {
    const handlers = new Set([...this.#byLane.values()].map(({ slots }) => slots));
    let beyond = 0;
    for (const { held, usable } of handlers) beyond += Math.max(0, held - usable);
    return beyond;
  }

  #served({ lane }: Claim): ServedLane {
    return this.#byLane.get(laneOf(lane))!;
  }

  /** Equal priorities take turns in being first. */
  #inTurn(): ServedLane[] {
    const lanes = this.#lanes;
    if (lanes.length < 2) return lanes as ServedLane[];
    const turn = this.#turn++;
    const result: ServedLane[] = [];
    for (let from = 0; from < lanes.length;) {
      let to = from;
      while (to < lanes.length && lanes[to]!.lane.priority === lanes[from]!.lane.priority) to++;
      const equals = lanes.slice(from, to);
      const first = turn % equals.length;
      result.push(...equals.slice(first), ...equals.slice(0, first));
      from = to;
    }
    return result;
  }
}
