import { ConnectionLostError, type Session } from "../pg/session.js";
import {
  BATCH,
  CONTROL_SINCE,
  type RequestedCancel,
  forgetCancels,
  requestedCancels,
} from "../store/workers/control.js";
import type { Store } from "../store/store.js";
import type { Claimer } from "./claimer.js";
import { monotonic } from "./held.js";
import type { Outage } from "./outage.js";
import type { Slots } from "./slots.js";

// What this process is told of the jobs that it holds: read on a hint, and often enough without one. Nothing is sent
// while it holds nothing.

/** So that it is known within a second of the commit. */
const READ_MS = 700;
/** Reads that follow hints are so far apart, however many cancels come. */
const APART_MS = 10;
/** So often it is asked whether the schema has been migrated; a hint says it too. */
const ASK_AGAIN_MS = 15_000;
/** What was refused, for want of a right say, is left alone for so long. */
const LEFT_ALONE_MS = 10_000;

export interface ControlPorts {
  session: Session;
  store: Store;
  slots: Slots;
  claimer: Claimer;
  outage: Outage;
}

export class ControlReader {
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  #reading = false;
  #again = false;
  #waiting = false;
  #notBefore = Number.NEGATIVE_INFINITY;
  #askedAt = Number.NEGATIVE_INFINITY;
  #stopped = false;

  constructor(private readonly ports: ControlPorts) {}

  start(): void {
    this.#timer = setInterval(() => {
      if (this.ports.slots.held > 0 && this.#mayBeTold()) void this.#read();
    }, READ_MS).unref();
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
  }

  /** A hint that something is said to the workers of these ids, or to any; answers whether one of them is ours. */
  hear(workers: readonly number[] | "any"): boolean {
    const { slots, claimer } = this.ports;
    // The answer of a claim that is under way may bring the job that is meant.
    if (slots.held === 0 && !claimer.busy) return false;
    const mine = this.#ids();
    if (workers !== "any" && !workers.some((id) => mine.has(id))) return false;
    void this.#read();
    return true;
  }

  /** Whether the schema has the table, as far as is known, or it is time to ask. */
  #mayBeTold(): boolean {
    const now = monotonic();
    if (this.ports.store.has(CONTROL_SINCE)) return true;
    if (now - this.#askedAt < ASK_AGAIN_MS) return false;
    this.#askedAt = now;
    return true;
  }

  #ids(): Set<number> {
    const { slots, claimer } = this.ports;
    const ids = slots.workers;
    if (claimer.id !== undefined) ids.add(claimer.id);
    return ids;
  }

  async #read(): Promise<void> {
    if (this.#reading || this.#soon !== undefined) {
      this.#again = true;
      return;
    }
    if (this.#stopped || monotonic() < this.#notBefore) return;
    this.#reading = true;
    this.#again = false;
    try {
      // Somebody who cancels may be the first to know that the schema has been migrated.
      if (await this.ports.store.offers(CONTROL_SINCE)) await this.#readOnce();
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#reading = false;
    }
    if (!this.#again || this.#stopped) return;
    this.#soon = setTimeout(() => {
      this.#soon = undefined;
      void this.#read();
    }, APART_MS).unref();
  }

  async #readOnce(): Promise<void> {
    const { session, slots } = this.ports;
    const all = await requestedCancels(session, this.#ids());
    if (all.length === 0) return;
    const heeded: RequestedCancel[] = [];
    const unknown: RequestedCancel[] = [];
    for (const one of all) (slots.cancel(one) ? heeded : unknown).push(one);
    if (heeded.length > 0) await forgetCancels(session, heeded);
    if (unknown.length > 0 && !this.#waiting) void this.#whenArrived(unknown);
    this.#again ||= heeded.length > 0 && all.length === BATCH;
  }

  /** A claim that had committed before they were read has come, or is on its way; what else is not held is over. */
  async #whenArrived(unknown: readonly RequestedCancel[]): Promise<void> {
    const { session, slots, claimer } = this.ports;
    this.#waiting = true;
    try {
      await claimer.arrived();
      for (const one of unknown) slots.cancel(one);
      await forgetCancels(session, unknown);
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#waiting = false;
    }
  }

  #failed(error: unknown): void {
    if (this.#stopped) return;
    this.ports.outage.complain("requested cancels are not read", error);
    if (!(error instanceof ConnectionLostError)) this.#notBefore = monotonic() + LEFT_ALONE_MS;
  }
}
