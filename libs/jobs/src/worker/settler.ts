import { reportBesidePayload } from "../job/error-report.js";
import { storedResult, unstorable } from "../job/stored-result.js";
import { fitting, lacking } from "../pg/encoding.js";
import { ConnectionLostError, type Session } from "../pg/session.js";
import { isCheckViolation, isDataError, isLockTimeout } from "../pg/sqlstate.js";
import { bury } from "../store/transitions/bury.js";
import { cancelHeld } from "../store/transitions/cancel.js";
import { existing } from "../store/transitions/enqueue.js";
import type { Fence } from "../store/transitions/fence.js";
import { handBack } from "../store/transitions/hand-back.js";
import type { Writes } from "../store/transitions/noted.js";
import { retry } from "../store/transitions/retry.js";
import { lockedElsewhere, settled } from "../store/transitions/settled.js";
import { skip } from "../store/transitions/skip.js";
import { snooze } from "../store/transitions/snooze.js";
import { succeed } from "../store/transitions/succeed.js";
import { ensurePartitions } from "../store/upkeep/partitions.js";
import type { Attempt } from "./attempt.js";
import { monotonic } from "./held.js";
import type { Reports } from "./reports.js";
import { BACK, Pending, type Settlement, type Verb, as, fenceOf, groups } from "./settlement.js";

// Writes what became of attempts, in batches: whatever gathered while the last statement was under way goes
// into the next. Every statement is fenced. It never gives up on a settlement: the database may be away for
// as long as it likes, and what it did not take in the end, the lease gives back.

const MAX_PAUSE_MS = 2_000;
/** So often it is asked whether a row is free again. */
const LOCKED_MS = 200;

export interface SettleListener {
  settled(attempt: Attempt, settlement: Settlement): void;
  lost(attempt: Attempt): void;
  /** A result or an error could not be stored as it is: it is no JSON, or too long. */
  trouble(message: string, attempt?: Attempt): void;
  /** A statement was refused for a reason that is not in the jobs, or there is no connection; it is tried again. */
  failing(error: unknown): void;
}

export class Settler {
  /** Since when nothing can be written, for a reason that is not in the jobs; monotonic ms. */
  failingSince: number | undefined;
  #pending: Pending[] = [];
  #running: Promise<void> | undefined;
  #closed = false;

  constructor(
    private readonly session: Session,
    private readonly listener: SettleListener,
    /** The longest result that is stored, in bytes. */
    private readonly resultLimit: number,
    /** How settling is written in this queue. */
    private readonly writes: (queueId: number) => Writes = () => ({}),
    /** What attempts have said of themselves is written before their end is. */
    private readonly reports?: Reports,
  ) {}

  add(attempt: Attempt, settlement: Settlement): void {
    this.#pending.push(new Pending(attempt, settlement, this.#textOf(attempt, settlement)));
    this.#start();
  }

  #start(): void {
    this.#running ??= new Promise<void>((turn) => setImmediate(turn)).then(() => this.#run());
  }

  /** Resolves when all is written but what waits for somebody's lock. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  /** Gives up what is not written yet: the leases will give those jobs back. */
  abandon(): void {
    this.#closed = true;
  }

  async #run(): Promise<void> {
    let pause = 50;
    while (this.#pending.length > 0 && !this.#closed) {
      const taken = this.#pending;
      this.#pending = [];
      for (const group of groups(taken)) {
        let open = group;
        try {
          open = await this.#free(group);
          if (open.length > 0) await this.#write(open);
          this.failingSince = undefined;
          pause = 50;
        } catch (error) {
          await this.#failed(open, error, pause);
          pause = Math.min(pause * 2, MAX_PAUSE_MS);
        }
      }
    }
    this.#running = undefined;
  }

  /** Of a group that waited for a lock, what is free by now; the rest is asked about again. */
  async #free(group: Pending[]): Promise<Pending[]> {
    const [{ attempt: first, locked }] = group as [Pending, ...Pending[]];
    if (!locked) return group;
    const { queueId, worker } = first.claim;
    const held = await lockedElsewhere(this.session, queueId, worker, group.map(fenceOf));
    const rest = group.filter(({ attempt }) => held.has(attempt.claim.id));
    if (rest.length > 0) {
      const again = () => {
        this.#pending.push(...rest);
        if (!this.#closed) this.#start();
      };
      setTimeout(again, LOCKED_MS).unref();
    }
    const free = group.filter((one) => !rest.includes(one));
    for (const one of free) one.locked = false;
    return free;
  }

  async #write(group: Pending[]): Promise<void> {
    const [{ attempt: first, settlement }] = group as [Pending, ...Pending[]];
    const { queueId, worker } = first.claim;
    if (this.reports?.any) await this.reports.before(group.map(({ attempt }) => attempt));
    for (const one of group) one.sent = one.attempt.claim.attempt;
    const done = await this.#send(settlement.verb, queueId, worker, group);
    const rest = group.filter(
      (one) => !done.has(one.attempt.claim.id) || one.sent !== one.attempt.claim.attempt,
    );
    const cancelled = BACK.has(settlement.verb) && (await this.#cancel(queueId, worker, rest));
    const uncertain = rest.filter((one) => one.uncertain && one.sent === one.attempt.claim.attempt);
    if (uncertain.length > 0) {
      for (const id of await this.#settledBefore(queueId, worker, uncertain.map(fenceOf)))
        done.add(id);
    }
    for (const one of group) {
      if (cancelled && cancelled.has(one)) this.listener.settled(one.attempt, { verb: "cancel" });
      else if (done.has(one.attempt.claim.id)) this.listener.settled(one.attempt, one.settlement);
      else if (one.sent !== one.attempt.claim.attempt || one.attempt.claim.worker !== worker)
        this.#pending.push(one);
      else this.listener.lost(one.attempt);
    }
  }

  /** What would go back to its queue and was not found there to go: its cancel may have been requested. */
  async #cancel(queueId: number, worker: number, rest: readonly Pending[]): Promise<Set<Pending>> {
    if (rest.length === 0) return new Set();
    const done = await this.#send("cancel", queueId, worker, rest);
    return new Set(rest.filter((one) => done.has(one.attempt.claim.id)));
  }

  /** Those that the statement without an answer has settled. What is not kept leaves nothing: it is in no place at all. */
  async #settledBefore(queueId: number, worker: number, batch: Fence[]): Promise<Set<string>> {
    const found = await settled(this.session, queueId, worker, batch);
    if (this.writes(queueId).keep !== false) return found;
    const ids = batch.map(({ id }) => id);
    const there = await existing(this.session, queueId, ids);
    return new Set([...found, ...ids.filter((id) => !there.has(id))]);
  }

  async #send(
    verb: Verb,
    queueId: number,
    worker: number,
    group: readonly Pending[],
  ): Promise<Set<string>> {
    const { session } = this;
    const writes = this.writes(queueId);
    switch (verb) {
      case "succeed":
      case "skip":
        return await (verb === "succeed" ? succeed : skip)(
          session,
          queueId,
          worker,
          group.map((one) => ({ ...fenceOf(one), result: one.text })),
          writes,
        );
      case "snooze":
        return await snooze(
          session,
          queueId,
          worker,
          group.map((one) => ({ ...fenceOf(one), ...as(one, "snooze") })),
          writes,
        );
      case "retry":
        return await retry(
          session,
          queueId,
          worker,
          group.map((one) => ({
            ...fenceOf(one),
            delayMs: as(one, "retry").delayMs,
            error: one.text!,
          })),
          writes,
        );
      case "bury":
        return await bury(
          session,
          queueId,
          worker,
          group.map((one) => {
            const { reason } = as(one, "bury");
            return {
              ...fenceOf(one),
              reason,
              error: one.text!,
              failed: reason !== "crashed" && reason !== "buried",
            };
          }),
          writes,
        );
      case "hand-back":
        return await handBack(
          session,
          queueId,
          worker,
          group.map((one) => ({ ...fenceOf(one), ...as(one, "hand-back") })),
          writes,
        );
      case "cancel":
        return await cancelHeld(
          session,
          queueId,
          worker,
          group.map((one) => ({ ...fenceOf(one), error: one.text })),
          writes,
        );
    }
  }

  async #failed(group: Pending[], error: unknown, pause: number): Promise<void> {
    if (error instanceof ConnectionLostError) {
      if (error.sent) for (const one of group) one.uncertain = true;
      // One that only has to be opened anew is nobody's trouble.
      if (this.failingSince !== undefined) this.#heard(() => this.listener.failing(error));
      this.failingSince ??= monotonic();
    } else if (isCheckViolation(error)) {
      // No partition for today: the chore that makes them ahead has not run for a week.
      await ensurePartitions(this.session).catch((again: unknown) =>
        this.#trouble(`no partition for today can be made: ${(again as Error).message}`),
      );
    } else if (isLockTimeout(error)) {
      // Somebody's transaction holds one of them; apart from it the others are written at once.
      for (const one of group) one.locked = true;
      this.failingSince ??= monotonic();
      this.#heard(() => this.listener.failing(error));
      pause = 0;
    } else if (isDataError(error) && group.length > 1) {
      // One of them is poisoned; apart from the others it harms none.
      for (const one of group) {
        await this.#write([one]).catch(
          async (again: unknown) => await this.#failed([one], again, 0),
        );
      }
      return;
    } else if (isDataError(error)) {
      const [one] = group as [Pending];
      this.#trouble(`PostgreSQL refused to store it: ${(error as Error).message}`, one.attempt);
      one.text = insteadOf(one, lacking(error)?.encoding);
    } else {
      this.failingSince ??= monotonic();
      this.#heard(() => this.listener.failing(error));
    }
    this.#pending.unshift(...group);
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause).unref());
  }

  /** Whoever is told may have a fault of his own: it must not stop the settling. */
  #heard(tell: () => void): void {
    try {
      tell();
    } catch {
      // A logger that throws.
    }
  }

  #trouble(message: string, attempt?: Attempt): void {
    this.#heard(() => this.listener.trouble(message, attempt));
  }

  #textOf(attempt: Attempt, settlement: Settlement): string | null {
    switch (settlement.verb) {
      case "succeed": {
        if (settlement.result === undefined) return null;
        const { text, problem } = storedResult(settlement.result, this.resultLimit);
        if (problem !== undefined) this.#trouble(`the result is not stored: ${problem}`, attempt);
        return text;
      }
      case "skip":
        return JSON.stringify({ reason: settlement.reason });
      case "retry":
      case "bury":
        return JSON.stringify(reportBesidePayload(settlement.error));
      case "cancel":
        return "error" in settlement ? JSON.stringify(reportBesidePayload(settlement.error)) : null;
      default:
        return null;
    }
  }
}

/**
 * What is written instead of a text that PostgreSQL has refused. Where only its encoding lacks a character of it, what
 * people read has question marks for those; a result is not changed, but left out, and that is said in its place.
 */
function insteadOf({ text, settlement: { verb } }: Pending, encoding?: string): string | null {
  if (encoding !== undefined && verb !== "succeed" && text !== null) {
    const fits = fitting(text, encoding);
    if (fits !== text) return fits;
  }
  if (verb === "succeed") return unstorable(encoding);
  if (verb === "skip") return null;
  return JSON.stringify({ name: "Error", message: "the error could not be stored" });
}
