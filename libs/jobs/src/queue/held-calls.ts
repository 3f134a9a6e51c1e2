import type { NewJob } from "../store/transitions/new-jobs.js";
import { replaces } from "../store/transitions/enqueue-unique.js";
import { BRIEF_MS, FIRST_PAUSE_MS, PATIENCE_MS, deadline, longer, sleep } from "./patience.js";

// Calls that were in one statement with a key that a stranger holds. They are sent in halves until it is known whose
// key it is: the innocent are through then. The others are sent again, each key by itself, after pauses. Further calls
// with a key that is here line up behind those that came before: the last call wins, where they replace.

/** A call that waits: all of its jobs go together. */
export interface Call {
  readonly jobs: readonly NewJob[];
  /** When its time for locks is over; absent until it has met one. */
  until?: number;
}

/** Calls whose statement has met a lock, and as which error. */
export interface Locked<C extends Call> {
  calls: C[];
  error: unknown;
}

/** Calls of one name wait for the same locks; a list may wait for any of its own, and has itself for a name. */
type Name<C extends Call> = string | C;

/** To find whose key is held takes many statements, and their waits add up. */
const SORTING_MS = 5;

export class HeldCalls<C extends Call> {
  /** All names that are here; their further calls. */
  readonly #behind = new Map<Name<C>, C[]>();
  /** Calls of several names, one of which at least was held. */
  readonly #mixed: C[][] = [];
  /** Calls of one name, which was held. */
  #held: C[][] = [];
  #sorting: Promise<void> | undefined;
  #asking: Promise<void> | undefined;

  constructor(
    /** Answers which calls have met a lock; the others have got their answer. */
    private readonly send: (calls: C[], lockMs: number) => Promise<Locked<C> | undefined>,
    private readonly refuse: (calls: readonly C[], error: unknown) => void,
  ) {}

  /** While calls are here. */
  get busy(): Promise<void> | undefined {
    return this.#sorting ?? this.#asking;
  }

  /** Takes calls whose statement has met a lock. */
  add(locked: Locked<C>): void {
    for (const call of locked.calls) this.#behind.set(nameOf(call), []);
    this.#settle(locked.calls, locked);
  }

  /** Answers which of these calls nobody here is to be waited for; takes the others. */
  without(calls: C[]): C[] {
    return this.#behind.size === 0 ? calls : calls.filter((call) => !this.#takes(call));
  }

  #takes(call: C): boolean {
    const line = call.jobs.map((job) => this.#behind.get(nameOfJob(job))).find(Boolean);
    if (!line) return false;
    call.until = performance.now() + PATIENCE_MS;
    if (call.jobs.length === 1) line.push(call);
    else {
      this.#behind.set(call, []);
      this.#hold([call]);
    }
    return true;
  }

  /** Finds out whose key is held. */
  async #sort(): Promise<void> {
    for (let calls = this.#mixed.shift(); calls; calls = this.#mixed.shift())
      await this.#sendAgain(calls, SORTING_MS);
    this.#sorting = undefined;
  }

  /** Asks whether keys are still held. */
  async #ask(): Promise<void> {
    for (let pause = FIRST_PAUSE_MS; this.#held.length > 0; pause = longer(pause)) {
      await sleep(pause);
      const held = this.#held;
      this.#held = [];
      // However many they are, together they do not wait much longer than one.
      const lockMs = Math.max(SORTING_MS, Math.floor(BRIEF_MS / held.length));
      for (const calls of held) await this.#sendAgain(calls, lockMs);
    }
    this.#asking = undefined;
  }

  async #sendAgain(calls: C[], lockMs: number): Promise<void> {
    this.#settle(calls, await this.send(calls, lockMs));
  }

  /** What becomes of calls that were sent, and of those behind them. */
  #settle(sent: readonly C[], locked: Locked<C> | undefined): void {
    const met = byName(locked?.calls ?? []);
    const isHeld = locked !== undefined && met.size === 1;
    const left: C[][] = [];
    for (const name of new Set(sent.map((call) => nameOf(call)))) {
      const again = met.get(name) ?? [];
      const calls = this.#withoutOverdue(again, locked?.error);
      calls.push(...this.#behind.get(name)!.splice(0));
      if (calls.length > 0) left.push(calls);
      else this.#behind.delete(name);
    }
    if (left.length === 0) return;
    if (isHeld && left.length === 1) return this.#hold(left[0]!);
    const half = Math.ceil(left.length / 2);
    const halves = [left.slice(0, half).flat(), left.slice(half).flat()];
    this.#mixed.unshift(...halves.filter((calls) => calls.length > 0));
    this.#sorting ??= this.#sort();
  }

  #withoutOverdue(calls: readonly C[], error: unknown): C[] {
    const now = performance.now();
    const overdue = calls.filter(({ until }) => until! <= now);
    if (overdue.length > 0) this.refuse(overdue, error);
    return calls.filter(({ until }) => until! > now);
  }

  #hold(calls: C[]): void {
    this.#held.push(calls);
    this.#asking ??= this.#ask();
  }
}

/** Calls that have met a lock: from now on their time runs. */
function byName<C extends Call>(calls: readonly C[]): Map<Name<C>, C[]> {
  const names = new Map<Name<C>, C[]>();
  for (const call of calls) {
    call.until ??= deadline();
    const name = nameOf(call);
    const others = names.get(name);
    if (others) others.push(call);
    else names.set(name, [call]);
  }
  return names;
}

const nameOf = <C extends Call>(call: C): Name<C> =>
  call.jobs.length === 1 ? nameOfJob(call.jobs[0]!) : call;

/** What wants to replace waits for the job's row, what has a window for that of the window: others do not. */
const nameOfJob = (job: NewJob): string =>
  `${replaces(job)} ${(job.unique?.windowMs ?? null) !== null} ${job.kind}\n${job.key}`;
