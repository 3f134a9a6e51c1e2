import { hostname } from "node:os";
import type { Handler } from "../handler/handler.js";
import type { Events } from "../observe/events.js";
import type { Database } from "../pg/database.js";
import { Listener } from "../pg/listener.js";
import type { Session } from "../pg/session.js";
import { QUARANTINED, ensureQueue, lanesOf } from "../store/queues/lanes.js";
import { look } from "../store/queues/look.js";
import { wakeChannel } from "../store/queues/wake.js";
import { SchemaOutdatedError, type Store } from "../store/store.js";
import { claim } from "../store/transitions/claim.js";
import { ensurePartitions } from "../store/upkeep/chores.js";
import { beat, register, retire } from "../store/workers/workers.js";
import type { AttemptPorts } from "./attempt.js";
import { monotonic } from "./held.js";
import { Lease } from "./lease.js";
import { QueueWorker } from "./queue-worker.js";
import { HandlerSlots } from "./served-lane.js";
import { Settler } from "./settle.js";
import { Slots } from "./slots.js";

// The process at work: connects, looks, claims, and drains at the end. Polling is the truth and NOTIFY a hint:
// with NOTIFY off everything happens all the same, at most a poll interval later.

export interface WorkerSettings {
  queues: readonly { name: string; concurrency: number; prefetch: number }[];
  leaseMs: number;
  pollMs: number;
  graceMs: number;
  notify: boolean;
}

export interface WorkerPorts extends AttemptPorts {
  database: Database;
  store: Store;
  events: Events;
  handlers: readonly Handler[];
  /** Runs a background duty that is due. */
  chore(name: string): Promise<void>;
  log(level: "log" | "warn" | "error", message: string, params?: object): void;
}

/** Expired leases of others are taken over only by a process whose claims have worked so long. */
const TAKE_OVER_AFTER_MS = 10_000;
const BEAT_MS = 15_000;
const COMPLAIN_EVERY_MS = 10_000;
const MAX_PAUSE_MS = 2_000;
/** A look that takes longer than this share of the poll interval starts at the cursors, most of the time. */
const DEAR_LOOK_SHARE = 20;
const RESCAN_AT_LATEST_MS = 5_000;
const SUSPECT_PATIENCE_MS = 5_000;
/** After the grace period, for bodies to heed their signal, and for the last settles. */
const HEED_MS = 1_500;
const LAST_SETTLES_MS = 3_000;

export type WorkerState = "new" | "waiting" | "working" | "draining" | "stopped";

export class Worker {
  state: WorkerState = "new";
  get pollMs(): number {
    return this.settings.pollMs;
  }
  /** When the poll timer last fired, and when the database last answered a look; monotonic ms. */
  tickedAt = monotonic();
  lookedAt = Number.NEGATIVE_INFINITY;
  readonly #slots: Slots;
  readonly #handlers: Map<string, HandlerSlots>;
  #queues = new Map<number, QueueWorker>();
  #claims!: Session;
  #settles!: Session;
  #lease!: Lease;
  #listener: Listener | undefined;
  /** The id that claims carry; a new one for each connection that claims. */
  #id: number | undefined;
  #registering: Promise<number> | undefined;
  #looking = false;
  #lookAgain = false;
  #lookCost = 0;
  #fullLookAt = Number.NEGATIVE_INFINITY;
  #pollTimer: NodeJS.Timeout | undefined;
  #beatTimer: NodeJS.Timeout | undefined;
  readonly #dueTimers = new Map<QueueWorker, { at: number; timer: NodeJS.Timeout }>();
  #complainedAt = Number.NEGATIVE_INFINITY;
  #pauseMs = 0;
  #suspectSince: number | undefined;
  /** Somebody must run alone: claim nothing else until it is over. */
  #alone: "no" | "emptying" | "running" = "no";

  constructor(
    private readonly settings: WorkerSettings,
    private readonly ports: WorkerPorts,
  ) {
    this.#handlers = new Map(
      ports.handlers.map((handler) => [handler.definition.kind, new HandlerSlots(handler)]),
    );
    this.#slots = new Slots(ports.events, {
      logger: (attempt) => ports.logger(attempt),
      enqueue: (attempt, ...call) => ports.enqueue(attempt, ...call),
      moved: (queue) => this.#moved(queue),
      dueAgain: (queue, ms) => this.#dueIn(queue, ms),
      warn: (message, params) => ports.log("warn", message, params),
    });
  }

  get running(): number {
    return this.#slots.running;
  }
  /** Settles and renewals that found the job in other hands. */
  get lost(): number {
    return this.#slots.lostCount;
  }

  /** An attempt's own statement has found that it is not the current one. */
  attemptLost(attempt: Parameters<Slots["lost"]>[0]): void {
    this.#slots.lost(attempt);
  }

  /** Begins in the background: a database that is away, or a schema that is not ready, is waited for. */
  start(): void {
    if (this.state !== "new") return;
    this.state = "waiting";
    const { database } = this.ports;
    const capacity = this.settings.queues.reduce(
      (sum, { concurrency, prefetch }) => sum + concurrency + prefetch,
      0,
    );
    this.#claims = database.open("claim", { onLost: () => (this.#id = undefined) });
    this.#settles = database.open("settle");
    this.#lease = new Lease(
      database,
      this.settings.leaseMs,
      capacity,
      (lost) => this.#slots.onLost(lost),
      (message) => this.#complain("leases are not renewed", message),
    );
    this.#slots.lease = this.#lease;
    this.#slots.settler = new Settler(this.#settles, this.#slots);
    void this.#begin();
    this.#poll();
  }

  /** A hint that a queue has something to do; answers whether this process has a slot for it. */
  wake(queueId: number): boolean {
    const queue = this.#queues.get(queueId);
    if (!queue || this.state !== "working") return false;
    queue.wanted = true;
    const free = queue.running + queue.waiting < queue.settings.concurrency;
    this.#moved(queue);
    return free;
  }

  /** A lane or a queue has changed: what is cached is read anew. */
  changed(): void {
    void this.#look();
  }

  /**
   * Drains: claims nothing more, gives handlers the grace period, then aborts and hands back what is left.
   * @returns whether every body has ended.
   */
  async stop(): Promise<{ drained: boolean }> {
    if (this.state === "new" || this.state === "stopped") return { drained: true };
    this.state = "draining";
    clearTimeout(this.#pollTimer);
    for (const { timer } of this.#dueTimers.values()) clearTimeout(timer);
    await this.#listener?.close();
    for (const queue of this.#queues.values()) this.#slots.handBackWaiting(queue);
    await this.#until(() => this.#slots.running === 0 && !this.#claiming, this.settings.graceMs);
    this.#slots.abortAll();
    await this.#until(() => this.#slots.running === 0, this.#slots.running === 0 ? 0 : HEED_MS);
    this.#slots.handBackRunning();
    await this.#until(() => this.#slots.held === 0, LAST_SETTLES_MS);
    const drained = this.#slots.running === 0;
    this.#slots.settler.abandon();
    this.#slots.stop();
    clearTimeout(this.#beatTimer);
    if (this.#id !== undefined) {
      await within(
        retire(this.ports.store.session, this.#id, this.lost).catch(() => undefined),
        500,
      );
    }
    const { database } = this.ports;
    await Promise.all([
      this.#lease.stop(),
      database.release(this.#claims, 500),
      database.release(this.#settles, 500),
    ]);
    this.state = "stopped";
    return { drained };
  }

  get #claiming(): boolean {
    return [...this.#queues.values()].some((queue) => queue.claiming);
  }

  // --- beginning

  async #begin(): Promise<void> {
    while (this.state === "waiting") {
      try {
        await this.#prepare();
        if (this.state === "waiting") this.state = "working";
      } catch (error) {
        this.#complain(
          error instanceof SchemaOutdatedError
            ? 'the schema is not ready: run "pg-jobs migrate"'
            : "the database is away",
          error,
        );
        await pause(this.#nextPause());
      }
    }
    this.#pauseMs = 0;
    if (this.state !== "working") return;
    this.#beat();
    await this.#look();
  }

  async #prepare(): Promise<void> {
    const { store, database } = this.ports;
    await store.guard(async () => {
      await ensurePartitions(store.session);
      const queues = new Map<number, QueueWorker>();
      for (const settings of this.settings.queues) {
        const { id } = await ensureQueue(store.session, settings.name);
        queues.set(id, new QueueWorker({ ...settings, id }, this.#handlers));
      }
      this.#queues = queues;
    });
    if (this.settings.notify && !this.#listener) {
      this.#listener = new Listener({
        config: database.listenConfig,
        channel: wakeChannel(database.schema),
        onNotify: (payload) => this.#heard(payload),
        onConnect: () => void this.#look(),
      });
      this.#listener.start();
    }
  }

  /** The id for claims, registered anew after each loss of their connection. */
  async #identity(): Promise<number> {
    if (this.#id !== undefined) return this.#id;
    await this.#claims.connect();
    this.#registering ??= register(this.ports.store.session, {
      host: hostname(),
      pid: process.pid,
      kinds: Object.fromEntries(
        this.settings.queues.map(({ name }) => [name, [...this.#handlers.keys()]]),
      ),
      slots: this.settings.queues.reduce((sum, { concurrency }) => sum + concurrency, 0),
    }).finally(() => (this.#registering = undefined));
    const id = await this.#registering;
    if (!this.#claims.connected) throw new Error("the connection for claims was lost");
    return (this.#id = id);
  }

  // --- looking

  #poll(): void {
    clearTimeout(this.#pollTimer);
    if (this.state === "draining" || this.state === "stopped") return;
    this.tickedAt = monotonic();
    void this.#look();
    // Not all replicas at once.
    this.#pollTimer = setTimeout(
      () => this.#poll(),
      this.settings.pollMs * (0.95 + Math.random() * 0.1),
    );
  }

  async #look(): Promise<void> {
    if (this.state !== "working") return;
    if (this.#looking) {
      this.#lookAgain = true;
      return;
    }
    this.#looking = true;
    try {
      do {
        this.#lookAgain = false;
        await this.#lookOnce();
      } while (this.#lookAgain && this.state === "working");
      this.#pauseMs = 0;
    } catch (error) {
      this.#complain("the database is away", error);
    } finally {
      this.#looking = false;
    }
  }

  async #lookOnce(): Promise<void> {
    const from = monotonic();
    const whole =
      this.#lookCost * DEAR_LOOK_SHARE < this.settings.pollMs ||
      from - this.#fullLookAt >= RESCAN_AT_LATEST_MS;
    const lanes = [...this.#queues].flatMap(([queueId, queue]) =>
      queue.lanes.flatMap(({ lane: { lane } }) => [
        {
          queueId,
          lane,
          ...(whole ? { at: "-infinity", backMs: 0 } : queue.cursor.position(lane)),
        },
        { queueId, lane: lane + QUARANTINED, at: "-infinity", backMs: 0 },
      ]),
    );
    const seen = await look(this.#claims, [...this.#queues.keys()], lanes, this.#mayTakeOver);
    this.lookedAt = monotonic();
    if (whole) {
      this.#fullLookAt = this.lookedAt;
      this.#lookCost = this.lookedAt - from;
    }
    await this.#readLanes(seen.versions);
    for (const [queueId, ms] of seen.due) {
      const queue = this.#queues.get(queueId)!;
      if (ms > 0) this.#dueIn(queue, ms);
      else {
        queue.cursor.rescan();
        queue.wanted = true;
        this.#moved(queue);
      }
    }
    this.#considerSuspects(seen.suspects);
    for (const chore of seen.chores) void this.ports.chore(chore);
  }

  async #readLanes(versions: ReadonlyMap<number, number>): Promise<void> {
    const stale = [...this.#queues]
      .filter(([id, queue]) => queue.version !== versions.get(id))
      .map(([id]) => id);
    if (stale.length === 0) return;
    const lanes = await lanesOf(this.ports.store.session, stale);
    for (const id of stale) {
      const queue = this.#queues.get(id)!;
      queue.serve(
        lanes.filter((lane) => lane.queueId === id),
        versions.get(id) ?? 0,
      );
      queue.wanted = true;
    }
    this.#lookAgain = true;
  }

  #heard(payload: string): void {
    if (payload.endsWith("!")) return this.changed();
    this.wake(Number(payload));
  }

  /** Claims again when a job is due that was seen to be due soon; later ones are seen again by the next look. */
  #dueIn(queue: QueueWorker, ms: number): void {
    if (ms > this.settings.pollMs || this.state !== "working") return;
    const at = performance.now() + ms;
    const known = this.#dueTimers.get(queue);
    if (known && known.at <= at) return;
    clearTimeout(known?.timer);
    const timer = setTimeout(
      () => {
        this.#dueTimers.delete(queue);
        queue.wanted = true;
        this.#moved(queue);
      },
      Math.ceil(ms) + 1,
    ).unref();
    this.#dueTimers.set(queue, { at, timer });
  }

  get #mayTakeOver(): boolean {
    return this.#claims.connectedFor >= TAKE_OVER_AFTER_MS;
  }

  // --- claiming

  #moved(queue: QueueWorker): void {
    if (this.#alone !== "no" && this.#slots.held === 0) return this.#runAlone();
    this.#slots.fill(queue);
    if (queue.wanted && !queue.claiming && this.state === "working" && this.#alone === "no")
      void this.#claim(queue);
  }

  async #claim(queue: QueueWorker): Promise<void> {
    queue.claiming = true;
    try {
      while (queue.wanted && this.state === "working" && this.#alone === "no") {
        const ask = queue.ask(monotonic());
        if (!ask) break;
        queue.wanted = false;
        const { taken, full } = await this.#claimOnce(queue, ask);
        if (full) queue.wanted = true;
        if (taken > 0 && this.state === "working") this.#slots.fill(queue);
      }
    } catch (error) {
      queue.wanted = true;
      this.#complain("claiming failed and is tried again", error);
      await pause(this.#nextPause());
    } finally {
      queue.claiming = false;
    }
    if (this.state === "draining") this.#slots.handBackWaiting(queue);
    else if (queue.wanted && queue.room > 0) setImmediate(() => this.#moved(queue));
  }

  async #claimOnce(
    queue: QueueWorker,
    ask: NonNullable<ReturnType<QueueWorker["ask"]>>,
  ): Promise<{ taken: number; full: boolean }> {
    const worker = await this.#identity();
    const since = monotonic();
    const claims = await claim(this.#claims, {
      ...ask,
      queueId: queue.settings.id,
      version: queue.version,
      leaseMs: this.settings.leaseMs,
      worker,
      takeOver: this.#mayTakeOver,
    });
    this.#pauseMs = 0;
    const now = monotonic();
    const full =
      claims.length >= ask.room ||
      ask.lanes.some(
        ({ lane, room }) =>
          room < ask.room && claims.filter((one) => one.lane === lane).length >= room,
      );
    queue.cursor.learn(claims, full, now - since, now);
    for (const one of claims) this.#slots.take(queue, one, since);
    return { taken: claims.length, full };
  }

  // --- suspects: jobs whose process died twice run one at a time, in a process that holds nothing else

  #considerSuspects(queues: ReadonlySet<number>): void {
    if (queues.size === 0) {
      this.#suspectSince = undefined;
      if (this.#alone === "emptying") this.#together();
      return;
    }
    this.#suspectSince ??= monotonic() + Math.random() * SUSPECT_PATIENCE_MS;
    const waited = monotonic() - this.#suspectSince >= SUSPECT_PATIENCE_MS;
    if (this.#alone !== "no" || (this.#slots.held > 0 && !waited)) return;
    this.#alone = "emptying";
    for (const queue of this.#queues.values()) this.#slots.handBackWaiting(queue);
    if (this.#slots.held === 0) this.#runAlone();
  }

  #runAlone(): void {
    if (this.#alone === "running" || this.#claiming) return;
    this.#alone = "running";
    void (async () => {
      try {
        for (const queue of this.#queues.values()) {
          if (queue.lanes.length === 0) continue;
          const worker = await this.#identity();
          const since = monotonic();
          const claims = await claim(this.#claims, {
            ...queue.askSuspect(),
            queueId: queue.settings.id,
            version: queue.version,
            leaseMs: this.settings.leaseMs,
            worker,
            takeOver: this.#mayTakeOver,
          });
          for (const one of claims) this.#slots.take(queue, one, since);
          this.#slots.fill(queue);
          await this.#until(() => this.#slots.held === 0, Number.POSITIVE_INFINITY);
        }
      } catch (error) {
        this.#complain("claiming failed and is tried again", error);
      } finally {
        this.#together();
      }
    })();
  }

  #together(): void {
    this.#alone = "no";
    this.#suspectSince = undefined;
    for (const queue of this.#queues.values()) {
      queue.wanted = true;
      this.#moved(queue);
    }
  }

  // --- the rest

  #beat(): void {
    this.#beatTimer = setTimeout(() => {
      if (this.#id !== undefined)
        beat(this.ports.store.session, this.#id, this.running, this.lost).catch(() => undefined);
      this.#beat();
    }, BEAT_MS).unref();
  }

  #nextPause(): number {
    this.#pauseMs = Math.min(Math.max(100, this.#pauseMs * 2), MAX_PAUSE_MS);
    return this.#pauseMs;
  }

  /** At most every 10 s: an outage is one thing to say, not a thousand. */
  #complain(message: string, error: unknown): void {
    const now = monotonic();
    if (this.state === "draining" || now - this.#complainedAt < COMPLAIN_EVERY_MS) return;
    this.#complainedAt = now;
    const cause =
      error instanceof Error
        ? ((error.cause as Error | undefined)?.message ?? error.message)
        : String(error);
    this.ports.log("warn", message, { cause });
  }

  async #until(check: () => boolean, ms: number): Promise<void> {
    const deadline = performance.now() + ms;
    while (!check() && performance.now() < deadline) await pause(5);
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function within(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([work, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
