import type { Session } from "../pg/session.js";
import { isCheckViolation, isLockTimeout, isStatementTimeout } from "../pg/sqlstate.js";
import { type Claim, type ClaimRequest, NEVER, claim } from "../store/transitions/claim.js";
import { type LimitedClaims, claimLimited } from "../store/transitions/claim-limited.js";
import type { Writes } from "../store/transitions/noted.js";
import { monotonic } from "./held.js";
import type { QueueLimits } from "./limits.js";
import { type Outage, unanswered } from "./outage.js";
import type { ClaimAsk, QueueWorker } from "./queue-worker.js";
import type { Slots } from "./slots.js";

// Claims for the queues of this process, on a connection of their own, under an id that belongs to it: when the
// connection is lost, claims without an answer are forgotten, and the next ones carry a new id.

/** Expired leases of others are taken over only by a process whose claims have worked so long. */
const TAKE_OVER_AFTER_MS = 10_000;
/** So long, in parts of the lease, a sign of life of the server serves: less than is left of a lease that is renewed. */
const TAKE_OVER_SHARE = 3;
/** Half a second or so. */
const MOST_TURNS = 50;

type Took = Pick<LimitedClaims, "claims"> & Partial<LimitedClaims>;

export interface ClaimerPorts {
  session: Session;
  slots: Slots;
  outage: Outage;
  leaseMs: number;
  /** How claims are written. */
  writes(queue: QueueWorker): Writes;
  /** There is no partition for today. */
  makePartitions(): Promise<unknown>;
  /** A fresh worker id, given by the database and never given again. */
  register(): Promise<number>;
  /** Jobs came that are of another kind than their lanes are known for: they are handed back. */
  misplaced(claims: readonly Claim[]): Promise<void>;
  /** Whether this process takes jobs now. */
  open(): boolean;
  /** The next claim may be a while off: others can take what this process could not. */
  rests(queue: QueueWorker): void;
  /** Jobs can run again that stand behind the place where claims of this queue are. */
  strayed(queue: QueueWorker): void;
}

export class Claimer {
  #id: number | undefined;
  #registering: Promise<number> | undefined;
  /** Since when. */
  readonly #underWay = new Map<Promise<number>, number>();
  /** The server's clock minus ours, or a little less. */
  #serverAhead: number | undefined;

  constructor(private readonly ports: ClaimerPorts) {}

  /** The id that claims carry now. */
  get id(): number | undefined {
    return this.#id;
  }

  /** Whether a claim is under way: its jobs may still come. */
  get busy(): boolean {
    return this.#underWay.size > 0;
  }

  /** Since when the oldest of them is; undefined: none is. Monotonic ms. */
  get turnSince(): number | undefined {
    return this.#underWay.values().next().value;
  }

  /** Resolves when the claims that are under way now have come, or will not. */
  async arrived(): Promise<void> {
    await Promise.allSettled(this.#underWay.keys());
  }

  get mayTakeOver(): boolean {
    return this.ports.session.worksFor >= TAKE_OVER_AFTER_MS;
  }

  /** The connection was lost, and with it the id; the next one may lead to another server. */
  forgetId(): void {
    this.#id = undefined;
    this.#serverAhead = undefined;
  }

  /** The server's clock, in ms, or a little less; undefined until it has said so on this connection. */
  get serverNow(): number | undefined {
    return this.#serverAhead === undefined ? undefined : this.#serverAhead + performance.now();
  }

  /** What the server's clock said in an answer that has just come. */
  learnClock(now: number): void {
    this.#serverAhead = now - performance.now();
  }

  /** Until when, by the server's clock, a claim that is sent now may take over: wherever it waits on its way. */
  get #takeOverUntil(): string {
    if (!this.mayTakeOver || this.#serverAhead === undefined) return NEVER;
    const { session, leaseMs } = this.ports;
    const heardAt = this.#serverAhead + session.heardAt;
    return new Date(heardAt + leaseMs / TAKE_OVER_SHARE).toISOString();
  }

  /** Claims for this queue, as long as it has room and there may be more; answers false when it failed. */
  async feed(queue: QueueWorker): Promise<boolean> {
    queue.claiming = true;
    try {
      while (queue.hungry && this.ports.open()) {
        const ask = queue.ask(monotonic());
        if (!ask) break;
        await this.take(queue, ask);
        if (this.ports.open()) this.ports.slots.fill(queue);
        if (!queue.limits) continue;
        this.ports.rests(queue);
        await queue.limits.rest(() => queue.mostlyFree);
      }
      return true;
    } catch (error) {
      queue.want();
      const why = isLockTimeout(error) ? unanswered(error) : "claiming failed and is tried again";
      await this.ports.outage.met(why, error);
      return false;
    } finally {
      queue.claiming = false;
    }
  }

  /** One claim; answers how many jobs came. */
  async take(queue: QueueWorker, ask: ClaimAsk): Promise<number> {
    const taking = ask.suspect ? this.#insist(queue, ask) : this.#take(queue, ask);
    this.#underWay.set(taking, monotonic());
    try {
      return await taking;
    } finally {
      this.#underWay.delete(taking);
    }
  }

  /** No other claim follows this one: refused as another one is under way, it is sent again. */
  async #insist(queue: QueueWorker, ask: ClaimAsk): Promise<number> {
    let count = await this.#take(queue, ask);
    for (let turn = 1; turn < MOST_TURNS && queue.limits?.refused; turn++) {
      await queue.limits.rest(() => false);
      count = await this.#take(queue, ask);
    }
    return count;
  }

  /** Says which jobs of a limited queue are over, when this process claims nothing more: others wait for their slots. */
  async release(queue: QueueWorker): Promise<void> {
    if (!queue.limits?.hasEnded || this.#id === undefined) return;
    await this.#insist(queue, { lanes: [], room: 0, suspect: true });
  }

  async #take(queue: QueueWorker, ask: ClaimAsk): Promise<number> {
    const { session, slots, leaseMs, outage } = this.ports;
    const { limits } = queue;
    const worker = await this.#identity();
    const since = monotonic();
    let sentAt = since;
    const { claims, ...told }: Took = await session
      .exclusive(async (run) => {
        // It may have waited behind a statement that was slow, or whose connection was lost.
        if (this.#id !== worker) throw new Error("the connection for claims was lost");
        sentAt = monotonic();
        const request = {
          ...ask,
          queueId: queue.settings.id,
          version: queue.version,
          leaseMs,
          worker,
          // What has expired was claimed once: it lies behind the cursor.
          takeOverUntil: searches(ask) ? this.#takeOverUntil : NEVER,
        };
        const writes = this.ports.writes(queue);
        return limits
          ? await this.#within(limits, request, async (more) =>
              claimLimited({ run }, { ...request, ...more }, writes),
            )
          : { claims: await claim({ run }, request, writes) };
      })
      .catch(async (error: unknown) => {
        // An event has no partition for today; the next claim finds one.
        if (isCheckViolation(error)) await this.ports.makePartitions();
        if (isStatementTimeout(error) && !ask.suspect)
          queue.cursor.gaveUp(monotonic() - sentAt, monotonic());
        throw error;
      });
    outage.over();
    // What it waited for in line is not its cost.
    const inLine = told.picked ? claims.filter(({ id }) => !told.picked!.has(id)) : claims;
    if (told.refused === undefined) queue.learn(ask, inLine, monotonic() - sentAt, monotonic());
    if (told.refused === "busy" || (told.parked ?? 0) > 0) queue.want();
    if ((told.strays ?? 0) > 0) this.ports.strayed(queue);
    const misplaced = claims.filter((one) => !queue.fits(one));
    if (misplaced.length > 0)
      await this.ports
        .misplaced(misplaced)
        .catch((error: unknown) => outage.complain("lanes cannot be made", error));
    for (const one of claims) slots.take(queue, one, since);
    return claims.length;
  }

  /** A claim that fails has told nothing. */
  async #within(
    limits: QueueLimits,
    { room, worker }: ClaimRequest,
    claiming: (more: ReturnType<QueueLimits["request"]>) => Promise<LimitedClaims>,
  ): Promise<LimitedClaims> {
    const more = limits.request(room, worker, this.ports.session.pooled);
    try {
      const answer = await claiming(more);
      if (answer.refused) limits.untold(more.over);
      limits.learn(answer, worker);
      return answer;
    } catch (error) {
      limits.untold(more.over);
      throw error;
    }
  }

  /** Has an id, as one who waits for jobs too: others see that it is there. */
  async register(): Promise<void> {
    await this.#identity();
  }

  async #identity(): Promise<number> {
    if (this.#id !== undefined) return this.#id;
    await this.ports.session.connect();
    this.#registering ??= this.ports.register().finally(() => (this.#registering = undefined));
    const id = await this.#registering;
    // Lost meanwhile: the id belongs to no connection.
    if (!this.ports.session.connected) throw new Error("the connection for claims was lost");
    return (this.#id = id);
  }
}

/** Whether it walks what lies behind a cursor. */
const searches = ({ lanes }: ClaimAsk): boolean =>
  lanes.some(({ at, untilMs }) => at === "-infinity" || untilMs !== undefined);
