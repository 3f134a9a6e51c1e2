import { JobTimeoutError, LeaseLostError, ShutdownError } from "../job/errors.js";
import { reportError } from "../job/error-report.js";
import { type Result, decide, isVerdict } from "../job/verdict.js";
import type { Events } from "../observe/events.js";
import { Batch } from "../handler/batch.js";
import type { Handler } from "../handler/handler.js";
import { isQuarantined } from "../store/queues/lanes.js";
import type { Claim } from "../store/transitions/claim.js";
import type { RequestedCancel } from "../store/workers/control.js";
import type { RunningJob } from "../store/workers/workers.js";
import { Attempt, type AttemptPorts } from "./attempt.js";
import { AttemptTable } from "./attempt-table.js";
import { Bodies } from "./bodies.js";
import { Deadlines } from "./deadlines.js";
import { monotonic } from "./held.js";
import { Gathering } from "./gathering.js";
import type { Lease, LostClaim } from "./lease.js";
import type { QueueWorker } from "./queue-worker.js";
import type { Settlement } from "./settlement.js";
import type { SettleListener, Settler } from "./settler.js";
import { Story } from "./story.js";
import type { TransactionListener } from "./transactions.js";

// What the process holds: claims come in, wait for a slot, run, and go to the settler. It knows nothing of
// the database; whether an attempt is still ours is told by the settler and by the renewing thread.

/** From the abort of an attempt that overran its timeout until it counts as failed, whether its body ended or not. */
const OVERRUN_MS = 5_000;
/** A running job is renewed so much longer than its timeout. */
const RENEW_BEYOND_MS = OVERRUN_MS + 5_000;
/** After so many deaths of its process a job is dead, if its attempts are not used up before. */
const MAX_CRASHES = 3;
const SUSPECT_AT = 2;

export interface SlotsHooks extends AttemptPorts {
  /** Something of this queue is over or has ended: there may be room. */
  moved(queue: QueueWorker): void;
  /** A job was given back: others can run it at once. */
  handedBack(queue: QueueWorker, kind: string): void;
  /** The row of a job says that this attempt is not the current one. */
  lost(): void;
  /** A job of this queue is due again in so many ms. */
  dueAgain(queue: QueueWorker, ms: number): void;
  warn(message: string, params?: object): void;
  /** Settling fails, whatever the job. */
  failing(error: unknown): void;
  /** The server's clock, in ms; undefined while it is not known. */
  serverNow(): number | undefined;
}

/** What a drain leaves behind. */
export interface Leftovers {
  /** Bodies that still run. */
  running: number;
  /** Of them: their jobs were given back. */
  handedBack: number;
  /** Of them: their attempts had failed before, by their timeout. */
  overdue: number;
  /** Of them: their jobs were in other hands before. */
  lost: number;
  /** Jobs of which nobody could write what became of them: they are claimed again once their leases are over. */
  unwritten: number;
}

export class Slots implements SettleListener, TransactionListener {
  /** Attempts that turned out not to be ours any more. */
  lostCount = 0;
  #heldCount = 0;
  readonly #attempts = new AttemptTable();
  readonly #bodies = new Bodies();
  /** Of batch handlers. */
  readonly #gatherings = new Map<Handler, Gathering>();
  readonly #timeouts = new Deadlines<Attempt>((attempt) => this.#timedOut(attempt));
  readonly #overruns = new Deadlines<Attempt>((attempt) => this.#overran(attempt));
  /** The worker is over: what has not been settled goes back. */
  #givesBack = false;
  #settler!: Settler;
  #lease!: Lease;

  readonly #story: Story;

  constructor(
    events: Events,
    private readonly hooks: SlotsHooks,
  ) {
    this.#story = new Story(events, () => hooks.serverNow());
  }

  /** Where settlements and leases go; both exist only once the worker has started. */
  begin(settler: Settler, lease: Lease): void {
    this.#settler = settler;
    this.#lease = lease;
  }

  /** Claims that wait, run or are being settled. */
  get held(): number {
    return this.#heldCount;
  }
  /** Bodies that run, those of lost attempts too. */
  get running(): number {
    return this.#bodies.size;
  }

  /** Bodies that run, so many of them, the one that began first in front. */
  longest(most: number): RunningJob[] {
    const now = monotonic();
    return [...this.#bodies]
      .filter(({ phase }) => phase === "running")
      .sort((a, b) => a.startedAt - b.startedAt)
      .slice(0, most)
      .map(({ id, kind, startedAt }) => ({ id, kind, ranMs: Math.round(now - startedAt) }));
  }

  /** The ids under which it holds claims: a lost connection gives a new one, what is held keeps the old. */
  get workers(): Set<number> {
    const ids = new Set<number>();
    for (const { claim } of this.#attempts) ids.add(claim.worker);
    return ids;
  }

  /** Takes a claim; `since` is when it was sent. */
  take(queue: QueueWorker, claim: Claim, since: number): void {
    const handler = queue.handlerOf(claim);
    const attempt = new Attempt(claim, handler, queue.settings.name, this.hooks);
    const known = this.#attempts.find(claim.queueId, claim.id);
    if (known && goesOn(known.claim, claim)) return this.#adopt(known, claim, since);
    // Somebody else had the job in between. One that is being settled hears of it from its settle.
    if (known && known.phase !== "ended") this.lost(known);
    attempt.slot = this.#lease.held.hold(claim, since);
    this.#attempts.add(attempt);
    attempt.heldBy = queue;
    this.#heldCount++;
    queue.take(attempt);
    if (!queue.fits(claim)) {
      // It would run in a handler that is not its own.
      queue.forgetWaiting(attempt);
      return this.#end(attempt, {
        verb: "hand-back",
        started: false,
        quarantine: false,
        misplaced: true,
      });
    }
    if (claim.cancelled) {
      queue.forgetWaiting(attempt);
      return this.#end(attempt, { verb: "cancel" });
    }
    if (claim.rescued) this.#story.tell("rescued", attempt, { reason: `crash ${claim.crashes}` });
    this.#setAside(queue, attempt);
  }

  /** Starts what waits, as far as there are slots; gives back what would wait for a body without end. */
  fill(queue: QueueWorker): void {
    for (let attempt = queue.next(); attempt; attempt = queue.next()) this.#start(queue, attempt);
    if (this.#gatherings.size > 0) this.#callWhoWaitInVain(queue);
    for (const attempt of queue.takeStranded())
      this.#end(attempt, { verb: "hand-back", started: false, quarantine: false });
    if (!queue.pausing) return;
    for (const gathering of this.#gatherings.values())
      for (const attempt of gathering.take((one) => one.heldBy === queue && queue.pauses(one)))
        this.#ended(queue, attempt, undefined);
  }

  /** Gatherings of this queue that wait in vain, or keep others from starting. */
  #callWhoWaitInVain(queue: QueueWorker): void {
    const ofQueue = (attempt: Attempt) => attempt.heldBy === queue;
    let gathered = 0;
    for (const gathering of this.#gatherings.values()) gathered += gathering.count(ofQueue);
    if (gathered === 0) return;
    for (const [handler, gathering] of this.#gatherings)
      if (gathering.count(ofQueue) > 0 && queue.stuckFor(handler, gathered)) gathering.flush();
  }

  /** The renewing thread found a claim that is not ours any more. */
  onLost({ slot, id, attempt: number, worker }: LostClaim): void {
    const attempt = this.#attempts.at(slot);
    if (!attempt) return;
    const { claim } = attempt;
    // While its settle is under way the row may be gone because of us: the settle's own answer counts.
    if (
      attempt.phase === "ended" ||
      claim.id !== id ||
      claim.attempt !== number ||
      claim.worker !== worker
    )
      return;
    this.lost(attempt);
  }

  /** The cancel of an attempt was requested; answers whether it is held. */
  cancel({ worker, queueId, id, attempt: number }: RequestedCancel): boolean {
    const attempt = this.#attempts.find(queueId, id);
    if (!attempt || attempt.claim.worker !== worker || attempt.claim.attempt !== number)
      return false;
    if (attempt.phase === "waiting") {
      attempt.heldBy.forgetWaiting(attempt);
      this.#end(attempt, { verb: "cancel" });
      this.#leave(attempt);
    } else if (attempt.phase === "running" || (attempt.settling && !attempt.committed))
      attempt.cancel();
    return true;
  }

  // --- told by the settler

  settled(attempt: Attempt, settlement: Settlement): void {
    const queue = this.#over(attempt);
    if (!queue) return;
    this.#story.settled(attempt, settlement);
    const delay =
      settlement.verb === "retry" || settlement.verb === "snooze" ? settlement.delayMs : undefined;
    if (delay !== undefined) this.hooks.dueAgain(queue, delay);
    if (settlement.verb === "hand-back") this.hooks.handedBack(queue, attempt.kind);
    this.hooks.moved(queue);
  }

  lost(attempt: Attempt): void {
    if (attempt.lost || attempt.phase === "over") return;
    const waited = attempt.phase === "waiting";
    attempt.lost = true;
    this.lostCount++;
    const queue = this.#over(attempt);
    if (waited) queue?.forgetWaiting(attempt);
    this.#timeouts.remove(attempt, attempt.timeoutMs);
    attempt.abort(new LeaseLostError(attempt.id, attempt.claim.attempt));
    this.#story.tell("lost", attempt);
    this.hooks.lost();
    if (waited) this.#leave(attempt);
    if (queue) this.hooks.moved(queue);
  }

  trouble(message: string, attempt?: Attempt): void {
    this.hooks.warn(
      message,
      attempt && { id: attempt.id, kind: attempt.kind, queue: attempt.queue },
    );
  }

  failing(error: unknown): void {
    this.hooks.failing(error);
  }

  // --- told by the transaction of an attempt

  settling(attempt: Attempt): boolean {
    // A source may run its transaction again.
    if (attempt.phase !== "running") return attempt.settling;
    attempt.phase = "ended";
    attempt.settling = true;
    return true;
  }

  /** The lease is of no use any more, the slot is taken until the body ends. */
  committed(attempt: Attempt): void {
    attempt.committed = true;
    this.#story.settled(attempt, { verb: "succeed", result: undefined });
  }

  notCommitted(attempt: Attempt): void {
    if (!attempt.settling) return;
    attempt.settling = false;
    attempt.phase = "running";
    // What came in between is made up for.
    if (attempt.overdue) this.#overran(attempt);
    else if (this.#givesBack) this.#giveBack(attempt);
  }

  threwLate(attempt: Attempt, error: unknown): void {
    this.#story.tell("threw-late", attempt, { error: reportError(error) });
  }

  // --- drain

  /** Gives back what has not started. */
  handBackWaiting(queue: QueueWorker): void {
    for (const attempt of queue.takeWaiting())
      this.#end(attempt, { verb: "hand-back", started: false, quarantine: false });
    for (const gathering of this.#gatherings.values())
      for (const attempt of gathering.take(({ heldBy }) => heldBy === queue))
        this.#ended(queue, attempt, undefined);
  }

  /** The grace period is over: tells every body to stop. */
  abortAll(): void {
    for (const attempt of this.#bodies) attempt.abort(new ShutdownError());
  }

  /** Gives back what still runs, without spending an attempt. */
  handBackRunning(): void {
    this.#givesBack = true;
    for (const attempt of this.#bodies) if (attempt.phase === "running") this.#giveBack(attempt);
  }

  #giveBack(attempt: Attempt): void {
    this.#end(attempt, { verb: "hand-back", started: true, quarantine: false });
  }

  leftovers(): Leftovers {
    const bodies = [...this.#bodies];
    const settled = bodies.filter(({ phase, lost }) => phase === "over" && !lost);
    const overdue = settled.filter((attempt) => attempt.overdue).length;
    return {
      running: bodies.length,
      handedBack: settled.length - overdue,
      overdue,
      lost: bodies.filter(({ lost }) => lost).length,
      unwritten: this.held,
    };
  }

  stop(): void {
    this.#timeouts.clear();
    this.#overruns.clear();
  }

  // --- one attempt

  /** A job whose process died twice is run alone next time; one that killed thrice is found out. */
  #setAside(queue: QueueWorker, attempt: Attempt): void {
    const { crashes, rescued, lane } = attempt.claim;
    if (!rescued) return;
    if (crashes >= Math.min(MAX_CRASHES, attempt.attempts)) {
      queue.forgetWaiting(attempt);
      const error = Object.assign(
        new Error(`the worker process died while it ran this job, ${crashes} times in a row`),
        { name: "WorkerCrashedError", stack: undefined },
      );
      this.#end(attempt, { verb: "bury", reason: "crashed", error });
    } else if (crashes >= SUSPECT_AT && !isQuarantined(lane)) {
      queue.forgetWaiting(attempt);
      this.#end(attempt, { verb: "hand-back", started: false, quarantine: true });
    }
  }

  /** The database handed out a job that we hold: it lost our claim in a crash. The body goes on under the new fence. */
  #adopt(attempt: Attempt, claim: Claim, since: number): void {
    attempt.claim = { ...claim, lane: attempt.claim.lane };
    const until =
      attempt.phase === "waiting" ? 0 : monotonic() + attempt.timeoutMs + RENEW_BEYOND_MS;
    this.#lease.held.adopt(attempt.slot, claim, until, since);
    if (claim.cancelled) this.cancel(claim);
  }

  #start(queue: QueueWorker, attempt: Attempt): void {
    this.#bodies.add(attempt);
    const { handler } = attempt;
    if (handler.batch) {
      // A suspect runs alone, and the whole process waits for it.
      if (isQuarantined(attempt.claim.lane)) return this.#startTogether(handler, [attempt]);
      return this.#gatheringOf(handler, handler.batch).add(attempt);
    }
    void attempt.run(this.#begins).then((result) => this.#ended(queue, attempt, result));
  }

  #gatheringOf(handler: Handler, options: NonNullable<Handler["batch"]>): Gathering {
    let gathering = this.#gatherings.get(handler);
    if (!gathering) {
      gathering = new Gathering(options, (attempts) => this.#startTogether(handler, attempts));
      this.#gatherings.set(handler, gathering);
    }
    return gathering;
  }

  /** It waits for others to be called with, and is over before that: its slot is free. */
  #leave(attempt: Attempt): void {
    if (this.#gatherings.get(attempt.handler)?.remove(attempt))
      this.#ended(attempt.heldBy, attempt, undefined);
  }

  #startTogether(handler: Handler, attempts: readonly Attempt[]): void {
    const batch = new Batch(handler);
    for (const attempt of attempts)
      void attempt
        .run(this.#begins, () => batch.join(attempt.claim.payload, attempt))
        .then((result) => this.#ended(attempt.heldBy, attempt, result));
    // Each of them has begun by then, or will not.
    setImmediate(() => void batch.run());
  }

  /** Its body begins now, if the job may be run still. */
  readonly #begins = (attempt: Attempt): boolean => {
    const now = monotonic();
    if (attempt.phase !== "waiting") return false;
    // Frozen or cut off for longer than the lease: somebody else may have it by now. If not, it is given back:
    // left to its expired lease it would count as a crash, though it has never run.
    if (now - this.#lease.held.renewedAt(attempt.slot) > this.#lease.ms) return false;
    attempt.phase = "running";
    attempt.startedAt = now;
    this.#lease.held.start(attempt.slot, now + attempt.timeoutMs + RENEW_BEYOND_MS);
    this.#timeouts.add(attempt, attempt.timeoutMs);
    this.#story.started(attempt);
    return true;
  };

  #ended(queue: QueueWorker, attempt: Attempt, result: Result | undefined): void {
    this.#bodies.delete(attempt);
    this.#timeouts.remove(attempt, attempt.timeoutMs);
    this.#overruns.remove(attempt, OVERRUN_MS);
    queue.ended(attempt);
    if (result === undefined) this.#notBegun(attempt);
    else if (attempt.committed) this.#endedLate(attempt, result);
    else if (attempt.phase === "running") this.#conclude(attempt, result);
    this.hooks.moved(queue);
  }

  #notBegun(attempt: Attempt): void {
    if (attempt.phase === "waiting")
      this.#end(attempt, { verb: "hand-back", started: false, quarantine: false });
  }

  /** Its transaction has settled it: how the body ended changes nothing. */
  #endedLate(attempt: Attempt, result: Result): void {
    this.#over(attempt);
    if (result.type === "returned") {
      if (isVerdict(result.value)) this.threwLate(attempt, result.value);
    } else if (result.type !== "aborted") this.threwLate(attempt, result.error);
  }

  #conclude(attempt: Attempt, result: Result): void {
    const decision = decide(attempt, result, attempt.handler.policy, Math.random);
    if (decision.verb === "retry" && decision.problem !== undefined)
      this.trouble(decision.problem, attempt);
    this.#end(
      attempt,
      decision.verb === "hand-back"
        ? { verb: "hand-back", started: true, quarantine: false }
        : decision,
    );
  }

  #end(attempt: Attempt, settlement: Settlement): void {
    attempt.phase = "ended";
    this.#settler.add(attempt, settlement);
  }

  #over(attempt: Attempt): QueueWorker | undefined {
    if (attempt.phase === "over") return undefined;
    const queue = attempt.heldBy;
    attempt.phase = "over";
    this.#heldCount--;
    this.#attempts.remove(attempt);
    this.#lease.held.release(attempt.slot);
    queue.over(attempt, this.#bodies.has(attempt));
    return queue;
  }

  #timedOut(attempt: Attempt): void {
    attempt.abort(new JobTimeoutError(attempt.timeoutMs));
    this.#overruns.add(attempt, OVERRUN_MS);
  }

  /** The attempt has failed; its slot stays taken until the body ends. */
  #overran(attempt: Attempt): void {
    if (attempt.committed) {
      const queue = this.#over(attempt);
      if (queue) this.hooks.moved(queue);
      return;
    }
    if (attempt.settling) attempt.overdue = true;
    if (attempt.phase !== "running") return;
    attempt.overdue = true;
    this.#conclude(attempt, { type: "timed-out", error: new JobTimeoutError(attempt.timeoutMs) });
  }
}

/**
 * Whether a claim of a job that we hold is of the same run: the database forgot our claim in a crash and gave its
 * number out again, or we took over our own expired lease. Any other number means that another attempt came after
 * ours, or that ours is settled already: a body that still runs is superseded, and never gets the new fence. Of
 * another kind or time, it is the same id in tables that were made anew: a job that has not run at all.
 */
const goesOn = (ours: Claim, claim: Claim): boolean =>
  claim.kind === ours.kind &&
  claim.runAt === ours.runAt &&
  (claim.attempt === ours.attempt || (claim.rescued && claim.attempt === ours.attempt + 1));
