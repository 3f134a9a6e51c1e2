import { hostname } from "node:os";
import { Listener } from "../pg/listener.js";
import type { Session } from "../pg/session.js";
import { isLockTimeout, isNotAllowed } from "../pg/sqlstate.js";
import { ensureOwnLane } from "../store/queues/lanes.js";
import { hearControl, hearWake, wakeChannel } from "../store/queues/wake.js";
import { PAUSES_SINCE, type Pause, pausesOf } from "../store/queues/pauses.js";
import { LIMITS_SINCE, limitedOf } from "../store/limits/rules.js";
import { SECLUSION, takeTurn } from "../store/upkeep/chores.js";
import { ensurePartitions } from "../store/upkeep/partitions.js";
import type { Claim } from "../store/transitions/claim.js";
import type { Writes } from "../store/transitions/noted.js";
import type { Attempt } from "./attempt.js";
import { Claimer } from "./claimer.js";
import { ControlReader } from "./control-reader.js";
import { FAREWELL_MS, drain } from "./drain.js";
import { Lease } from "./lease.js";
import { monotonic } from "./held.js";
import { Lookout } from "./lookout.js";
import { Outage, unanswered } from "./outage.js";
import { Quarantine } from "./quarantine.js";
import { Presence } from "./presence.js";
import type { QueueWorker } from "./queue-worker.js";
import { Reports, reportsReady } from "./reports.js";
import { Revisits } from "./revisits.js";
import { HandlerSlots } from "./served-lane.js";
import { ServedQueues } from "./served-queues.js";
import { Settler } from "./settler.js";
import { type Leftovers, Slots } from "./slots.js";
import { Transactions } from "./transactions.js";
import { within } from "./wait.js";
import { Watchdog } from "./watchdog.js";
import type { WorkerPorts, WorkerSettings } from "./worker-ports.js";

// The process at work, from its first connection to its last settle. The lookout sees what is due, the claimer
// takes it, the slots run it, the settler writes what became of it; this file puts them together.

export type WorkerState = "new" | "waiting" | "working" | "draining" | "stopped";

export class Worker {
  state: WorkerState = "new";
  readonly #handlers: Map<string, HandlerSlots>;
  readonly #queues: ServedQueues;
  readonly #outage: Outage;
  readonly #slots: Slots;
  readonly #claims: Session;
  readonly #settles: Session;
  readonly #settler: Settler;
  readonly #transactions: Transactions;
  readonly #reports: Reports;
  readonly #claimer: Claimer;
  readonly #quarantine: Quarantine;
  readonly #lookout: Lookout;
  readonly #watchdog: Watchdog;
  readonly #control: ControlReader;
  readonly #revisits = new Revisits((queue) => this.#found(queue));
  readonly #presence: Presence;
  /** Since when the step of the beginning goes on that is under way; monotonic ms. */
  #stepSince: number | undefined;
  #lease: Lease | undefined;
  #listener: Listener | undefined;

  constructor(
    readonly settings: WorkerSettings,
    private readonly ports: WorkerPorts,
  ) {
    const { database, store } = ports;
    this.#handlers = new Map(
      ports.handlers.map((handler) => [handler.definition.kind, new HandlerSlots(handler)]),
    );
    this.#queues = new ServedQueues(settings.queues, {
      store,
      handlers: this.#handlers,
      limit: (queueId, queue) => ports.limits.declare(queueId, queue),
      grown: async () => await this.#presence.sayKeptFinished(),
      log: (...call) => ports.log(...call),
    });
    this.#outage = new Outage(
      (message, params) => this.#begun && ports.log("warn", message, params),
    );
    this.#claims = database.open("claim", {
      onLost: () => this.#claimer.forgetId(),
      slowAfter: settings.leaseMs / 3,
    });
    this.#settles = database.open("settle");
    // The renewing thread has one of its own, and so has the listener.
    database.reserve(settings.notify ? 2 : 1);
    this.#slots = new Slots(ports.events, {
      logger: (attempt) => ports.logger(attempt),
      enqueue: (attempt, ...call) => ports.enqueue(attempt, ...call),
      transaction: (...call) => this.#transactions.run(...call),
      reported: (attempt) => this.#reports.add(attempt),
      moved: (queue) => this.#freed(queue),
      handedBack: (queue, kind) => ports.hint(queue.settings.id, kind),
      // A pooler may have hidden that the server crashed and forgot the claim: its number would be given out again,
      // and under the same id a body that still runs could pass for the next one.
      lost: () => void (this.#claims.pooled && this.#claimer.forgetId()),
      dueAgain: (queue, ms) => this.#lookout.dueIn(queue, ms),
      // A body that goes on after the end has nobody to tell.
      warn: (message, params) => this.state !== "stopped" && ports.log("warn", message, params),
      failing: (error) => this.#outage.complain("settling fails and is tried again", error),
      serverNow: () => this.#claimer.serverNow,
    });
    this.#reports = new Reports({
      session: this.#settles,
      ready: reportsReady(store, (message) => ports.log("warn", message)),
      makePartitions: () => ensurePartitions(this.#settles),
      trouble: (message, error) => this.#outage.complain(message, error),
    });
    this.#settler = new Settler(
      this.#settles,
      this.#slots,
      settings.resultLimit,
      (queueId) => this.#writes(queueId),
      this.#reports,
    );
    this.#transactions = new Transactions({
      clients: database.clients,
      settles: this.#settles,
      front: store.session,
      listener: this.#slots,
      reports: this.#reports,
      on: (tx) => ports.on(tx),
      resultLimit: settings.resultLimit,
      writes: (queueId) => this.#writes(queueId),
      claimant: (id) => ({ id, host: hostname(), pid: process.pid }),
    });
    this.#claimer = new Claimer({
      session: this.#claims,
      slots: this.#slots,
      outage: this.#outage,
      leaseMs: settings.leaseMs,
      writes: (queue) => this.#queues.writes(queue.settings.id),
      makePartitions: () => ensurePartitions(store.session),
      register: () => this.#presence.register(),
      misplaced: (claims) => this.#misplaced(claims),
      open: () => this.#open,
      rests: (queue) => {
        if (queue.leftOver) this.#tellOthers(queue);
      },
      strayed: (queue) => {
        queue.cursor.rescan(monotonic());
        queue.want();
        ports.released(queue.settings.id);
      },
    });
    this.#control = new ControlReader({
      session: this.#claims,
      store,
      slots: this.#slots,
      claimer: this.#claimer,
      outage: this.#outage,
    });
    this.#quarantine = new Quarantine({
      claimer: this.#claimer,
      slots: this.#slots,
      outage: this.#outage,
      queues: this.#queues.byId,
      working: () => this.state === "working",
      mayEmpty: async (mine) =>
        !store.has(2) || (await takeTurn(store.session, SECLUSION, { mine })),
      look: () => void this.#lookout.look(),
      released: () => this.#queues.byId.forEach((queue) => this.#found(queue)),
    });
    this.#lookout = new Lookout({
      session: this.#claims,
      front: store.session,
      outage: this.#outage,
      pollMs: settings.pollMs,
      queues: this.#queues.byId,
      open: () => this.state === "working",
      ticked: () => void this.#watchdog.look(),
      mayTakeOver: () => this.#claimer.mayTakeOver,
      pauses: async (ids) => await this.#pauses(ids),
      limited: async (ids) =>
        (await store.offers(LIMITS_SINCE)) ? await limitedOf(store.session, ids) : NONE,
      clock: (now) => this.#claimer.learnClock(now),
      found: (queue) => this.#found(queue),
      suspects: (queues) => this.#quarantine.consider(queues),
      chore: (name) =>
        void ports
          .chore(name)
          .catch((error: Error) =>
            this.#outage.complain(`the duty "${name}" failed: ${error.message}`, error),
          ),
      schedules: () => ports.schedules.ready(),
      fire: async () =>
        await ports.schedules.fire().catch((error: unknown) => {
          this.#outage.complain("schedules wait", error);
          return false;
        }),
      gone: () => this.#beginAgain(),
    });
    this.#watchdog = new Watchdog({
      turnSince: () => {
        const turns = [this.#stepSince, this.#lookout.turnSince, this.#claimer.turnSince];
        const since = Math.min(...turns.map((at) => at ?? Number.POSITIVE_INFINITY));
        return Number.isFinite(since) ? since : undefined;
      },
      claims: this.#claims,
      front: store.session,
      answers: async (ms) => await database.answers(ms, this.#settles),
      log: (...call) => ports.log(...call),
    });
    const kinds = [...this.#handlers.keys()];
    this.#presence = new Presence({
      store,
      kinds: Object.fromEntries(settings.queues.map(({ name }) => [name, kinds])),
      slots: this.slots,
      keepFinishedMs: settings.keepFinishedMs,
      release: ports.release,
      id: () => this.#claimer.id,
      identify: () => this.#claimer.register(),
      running: () => this.running,
      lost: () => this.lost,
      current: (most) => this.#slots.longest(most),
      forgotten: () => this.#claimer.forgetId(),
      beats: () => {
        void this.#queues.grow().catch(() => undefined);
        void ports.subscriptions
          .keep()
          .catch((error: unknown) => this.#outage.complain("subscriptions are not kept", error));
        void ports.limits
          .keep()
          .catch((error: unknown) => this.#outage.complain("limits are not kept", error));
        this.#keepSchedules();
      },
    });
  }

  /** Where it listens to others; undefined while it does not. */
  get listener(): Listener | undefined {
    return this.#listener;
  }
  /** How many bodies run. */
  get running(): number {
    return this.#slots.running;
  }
  /** How many may run at once. */
  get slots(): number {
    return this.settings.queues.reduce((sum, { concurrency }) => sum + concurrency, 0);
  }
  /** How many leases were renewed. */
  get renewals(): number {
    return this.#lease?.held.renewals ?? 0;
  }
  /** How many attempts were found in other hands. */
  get lost(): number {
    return this.#slots.lostCount;
  }
  /** When the poll timer last fired; monotonic ms. */
  get tickedAt(): number {
    return this.#lookout.tickedAt;
  }
  /** The kinds that it runs, each in the queue that is its own. */
  get serves(): { queue: string; kind: string }[] {
    return this.ports.handlers.map(({ definition: { queue, kind } }) => ({ queue, kind }));
  }
  /** Its loop stands still although the database answers, and no repair has helped. */
  get stuck(): boolean {
    return this.#watchdog.stuck;
  }
  /** When the database last answered a look; monotonic ms. */
  get answeredAt(): number {
    return this.#lookout.answeredAt;
  }

  /** Since when nothing that ended can be settled, though it should; monotonic ms. */
  get unsettledSince(): number | undefined {
    return this.#settler.failingSince;
  }
  /** For how long that has been so, in ms. */
  get unsettledMs(): number {
    const since = this.unsettledSince;
    return since === undefined ? 0 : monotonic() - since;
  }

  /** Begins in the background: a database that is away, or a schema that is not ready, is waited for. */
  start(): void {
    if (this.state !== "new") return;
    this.state = "waiting";
    this.#lease = new Lease(
      this.ports.database,
      this.settings.leaseMs,
      // Twice: after a new beginning the bodies of the old one may go on.
      2 *
        this.settings.queues.reduce(
          (sum, { concurrency, prefetch }) => sum + concurrency + prefetch,
          0,
        ),
      (lost) => this.#slots.onLost(lost),
      (error) => this.#outage.complain("leases are not renewed", error),
    );
    this.#slots.begin(this.#settler, this.#lease);
    this.#lookout.start();
    this.#control.start();
    void this.#begin();
  }

  /**
   * A hint that a queue has something to do. Of this process, it names the kind: the answer is whether a slot is free for
   * it, and if so the others are told by this worker, should there be more than it can take.
   */
  wake(queueId: number, kind?: string, behind = false): boolean {
    const queue = this.#queues.byId.get(queueId);
    if (!queue || !this.#open) return false;
    const handler = kind === undefined ? undefined : this.#handlers.get(kind);
    const free =
      queue.running + queue.waiting < queue.settings.concurrency && handler?.free === true;
    queue.othersWait ||= free;
    if (behind) queue.cursor.rescan(monotonic());
    this.#found(queue);
    return free;
  }

  /** A hint of another process, which all others hear as well. */
  #heard(queueId: number, behind: boolean): void {
    const queue = this.#queues.byId.get(queueId);
    const ms = queue?.trickle.waitMs(monotonic(), Math.random) ?? 0;
    if (!queue || behind || ms < 1) this.wake(queueId, undefined, behind);
    else if (this.#open) this.#revisits.in(queue, ms);
  }

  /** A hint that the worker of this id is told something; answers whether it is one of ours. */
  control(worker: number): boolean {
    return this.#control.hear([worker]);
  }

  /** A lane or a queue has changed: what is cached is read anew. */
  changed(): void {
    void this.#lookout.look();
  }

  /** An attempt's own statement has found that it is not the current one. */
  attemptLost(attempt: Attempt): void {
    this.#slots.lost(attempt);
  }

  /**
   * Drains: claims nothing more, gives handlers the grace period, then aborts them and hands back what is left.
   * @returns what could not be brought to its end.
   */
  async stop(): Promise<Leftovers> {
    if (this.state === "new" || this.state === "stopped") {
      // An app that is ended while it boots must not begin it any more.
      this.state = "stopped";
      await this.#disconnect();
      return this.#slots.leftovers();
    }
    this.state = "draining";
    this.#lookout.stop();
    this.#revisits.stop();
    const deaf = this.#listener?.close();
    const left = await drain(this.#slots, this.#claimer, this.#queues, this.settings.graceMs);
    this.#control.stop();
    this.#settler.abandon();
    this.#transactions.abandon();
    this.#reports.stop();
    this.#slots.stop();
    await Promise.all([this.#disconnect(), deaf]);
    this.state = "stopped";
    return left;
  }

  async #disconnect(): Promise<void> {
    const { database } = this.ports;
    await Promise.all([
      within(this.#presence.stop(), FAREWELL_MS),
      this.#lease?.stop(),
      database.release(this.#claims, FAREWELL_MS),
      database.release(this.#settles, FAREWELL_MS),
    ]);
  }

  async #begin(): Promise<void> {
    while (this.state === "waiting") {
      try {
        await this.#prepare().finally(() => (this.#stepSince = undefined));
        if (this.state === "waiting") this.state = "working";
      } catch (error) {
        await this.#outage.met(unanswered(error), error);
      }
    }
    if (this.state !== "working") return;
    this.#outage.over();
    this.#listen();
    this.#presence.start();
    this.#keepSchedules();
    await this.#lookout.look();
  }

  #keepSchedules(): void {
    void this.ports.schedules
      .keep()
      .catch((error: unknown) => this.#outage.complain("schedules are not declared yet", error));
  }

  /**
   * What was claimed is of another kind than the lanes are known for. Either they are others by now, or a job was put
   * into a wrong one, which an older release did with what it kept of tables that are gone: its own is made here.
   */
  async #misplaced(claims: readonly Claim[]): Promise<void> {
    const { store } = this.ports;
    const seen = new Set<string>();
    for (const claim of claims) {
      const name = `${claim.queueId} ${claim.lane} ${claim.kind}`;
      if (seen.has(name)) continue;
      seen.add(name);
      if ((await store.guard(() => ensureOwnLane(store.session, claim))) === "there")
        return this.#beginAgain();
    }
    this.changed();
  }

  /** A schema that came after the grants of this role must not stop it. */
  async #pauses(queueIds: readonly number[]): Promise<Pause[]> {
    const { store } = this.ports;
    if (!(await store.offers(PAUSES_SINCE))) return [];
    return await pausesOf(store.session, queueIds).catch((error: unknown) => {
      if (!isNotAllowed(error)) throw error;
      this.#outage.complain("pauses are not heeded", error);
      return [];
    });
  }

  /** Our queues and lanes are not there any more: somebody made the schema anew, or restored it. */
  #beginAgain(): void {
    if (this.state !== "working") return;
    this.state = "waiting";
    for (const queue of this.#queues.byId.values()) this.#slots.handBackWaiting(queue);
    this.#revisits.stop();
    // The new schema gives worker ids from 1 again: ours may become somebody else's.
    this.#claimer.forgetId();
    this.#queues.forget();
    this.ports.store.forget();
    this.ports.schedules.forget();
    this.ports.subscriptions.forget();
    this.ports.limits.forget();
    void this.#begin();
  }

  async #prepare(): Promise<void> {
    const { store } = this.ports;
    const goesOn = () => (this.#stepSince = monotonic());
    goesOn();
    await store.guard(async () => {
      // First: what is published before is not delivered to them.
      await this.ports.subscriptions.keep();
      goesOn();
      // Somebody analyses a parent, for minutes: mostly today's are there, and a settle that finds none makes them.
      await ensurePartitions(store.session).catch((error: unknown) => {
        if (!isLockTimeout(error)) throw error;
        this.#outage.complain("days ahead cannot be made yet", error);
      });
      goesOn();
      await this.#queues.prepare(goesOn);
    });
  }

  #writes(queueId: number): Writes {
    const answered = (ids: readonly string[]) => this.ports.answered(queueId, ids);
    return { ...this.#queues.writes(queueId), answered };
  }

  #listen(): void {
    const { database } = this.ports;
    if (!this.settings.notify || this.#listener) return;
    this.#listener = new Listener({
      config: database.listenConfig ?? database.config,
      chosen: database.listenConfig !== undefined,
      channel: wakeChannel(database.schema),
      onNotify: (payload) => {
        const told = hearControl(payload);
        if (told) return void this.#control.hear(told);
        const { queueId, changed, behind } = hearWake(payload);
        if (changed) this.changed();
        else this.#heard(queueId, behind);
      },
      onConnect: () => this.changed(),
      onPooler: () => this.ports.log("warn", POLLS_BEHIND_POOLER, { pollMs: this.settings.pollMs }),
    });
    this.#listener.start();
  }

  /** It is at work, or about to be. */
  get #begun(): boolean {
    return this.state === "waiting" || this.state === "working";
  }

  get #open(): boolean {
    return this.state === "working" && this.#quarantine.open;
  }

  #found(queue: QueueWorker): void {
    queue.want();
    this.#moved(queue);
  }

  /** Something of this queue is over. Its handler may serve several queues: a job of another waits for its slot. */
  #freed(queue: QueueWorker): void {
    this.#moved(queue);
    for (const other of this.#queues.byId.values())
      if (other !== queue && (other.waiting > 0 || other.hungry)) this.#moved(other);
  }

  /** There may be room in this queue, or something to claim. */
  #moved(queue: QueueWorker): void {
    this.#quarantine.moved();
    if (!this.#open || !this.#queues.includes(queue)) return;
    this.#slots.fill(queue);
    if (!queue.claiming && queue.hungry) void this.#feed(queue);
  }

  async #feed(queue: QueueWorker): Promise<void> {
    const fed = await this.#claimer.feed(queue);
    // It came too late: nothing is started now, and to an emptying worker it would never be empty.
    if (this.state === "draining" || !this.#quarantine.open || !this.#queues.includes(queue))
      return this.#slots.handBackWaiting(queue);
    this.#lookout.claimed(queue);
    this.#tellOthers(queue);
    // What moved during the pause after a failure was not heeded.
    if (!fed) this.#moved(queue);
    else if (queue.empty) this.#revisits.emptied(queue);
  }

  /** They were not told of jobs that this process might have taken all by itself. */
  #tellOthers(queue: QueueWorker): void {
    if (!queue.othersWait) return;
    queue.othersWait = false;
    if (queue.leftOver) this.ports.tellOthers(queue.settings.id);
  }
}

const NONE: ReadonlySet<number> = new Set();

const POLLS_BEHIND_POOLER =
  "the connection leads through a transaction pooler, where LISTEN hears nothing: jobs are found by polling; " +
  "to start them at once, give connection.url together with a connection.listenUrl that leads past the pooler";
