import { monotonic } from "./held.js";
import type { Claimer } from "./claimer.js";
import type { Outage } from "./outage.js";
import type { QueueWorker } from "./queue-worker.js";
import type { Slots } from "./slots.js";

// A job whose process died twice is a suspect: it runs alone, in a process that holds nothing else, so that it
// takes nobody with it. When no process happens to be empty, one of them makes itself so, and only one: while its
// jobs go on it takes no others, and a whole fleet that waits for its long ones would stand still.

const PATIENCE_MS = 5_000;

export interface QuarantinePorts {
  claimer: Claimer;
  slots: Slots;
  outage: Outage;
  queues: ReadonlyMap<number, QueueWorker>;
  /** Not once the worker drains. */
  working(): boolean;
  /** Asks for the right to make this process empty; `mine`: keeps it. */
  mayEmpty(mine: boolean): Promise<boolean>;
  look(): void;
  /** The suspects are over: all queues go on. */
  released(): void;
}

export class Quarantine {
  #state: "open" | "emptying" | "alone" = "open";
  #asking = false;
  #patienceEnds: number | undefined;
  #whenEmpty: (() => void) | undefined;

  constructor(private readonly ports: QuarantinePorts) {}

  /** Whether jobs are claimed as usual. */
  get open(): boolean {
    return this.#state === "open";
  }

  /** Told after each look in which queues suspects wait. */
  consider(suspects: ReadonlySet<number>): void {
    // A body without end may have its slot: then the suspect is left to others, or it would be waited for in vain.
    const queues = [...suspects].filter((id) => this.ports.queues.get(id)?.askSuspect());
    if (queues.length === 0) {
      this.#patienceEnds = undefined;
      if (this.#state === "emptying") this.#release();
      return;
    }
    if (this.#state === "alone") return;
    // A random part, so that of twenty processes one is first and the others see it done.
    this.#patienceEnds ??= monotonic() + PATIENCE_MS * (1 + Math.random());
    const { slots, claimer } = this.ports;
    if (slots.held === 0 && !claimer.busy) void this.#runAlone(queues);
    else if (this.#state === "emptying" || monotonic() >= this.#patienceEnds) void this.#empty();
  }

  async #empty(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    const { slots, queues, outage } = this.ports;
    const mine = this.#state === "emptying";
    try {
      const granted = await this.ports.mayEmpty(mine);
      if (mine || this.#state !== "open") return;
      // Another one does it: perhaps it is over before this one asks again.
      this.#patienceEnds = undefined;
      if (!granted) return;
      this.#state = "emptying";
      for (const queue of queues.values()) slots.handBackWaiting(queue);
    } catch (error) {
      outage.complain("a suspect waits for an empty worker", error);
    } finally {
      this.#asking = false;
    }
  }

  /** Told whenever a job is over. */
  moved(): void {
    if (this.ports.slots.held > 0) return;
    this.#whenEmpty?.();
    // Whether the suspect still waits, or another process was faster, is to be seen.
    if (this.#state === "emptying") this.ports.look();
  }

  async #runAlone(queueIds: readonly number[]): Promise<void> {
    this.#state = "alone";
    const { claimer, slots, queues, outage } = this.ports;
    try {
      for (const id of queueIds) {
        if (!this.ports.working()) return;
        const queue = queues.get(id);
        const ask = queue?.askSuspect();
        if (!queue || !ask || (await claimer.take(queue, ask)) === 0) continue;
        // It came too late. Left to its lease it would count as its last crash, though it has not run.
        if (!this.ports.working()) return slots.handBackWaiting(queue);
        const empty = new Promise<void>((resolve) => (this.#whenEmpty = resolve));
        slots.fill(queue);
        if (slots.held > 0) await empty;
        this.#whenEmpty = undefined;
      }
    } catch (error) {
      outage.complain("claiming failed and is tried again", error);
    } finally {
      this.#release();
    }
  }

  #release(): void {
    this.#state = "open";
    this.#patienceEnds = undefined;
    this.ports.released();
  }
}
