import { isNotAllowed } from "../pg/sqlstate.js";
import { type Orphan, PATIENCE_MS, declare, keep } from "../store/events/declared.js";
import { EVENTS_SINCE, type NewSubscription } from "../store/events/subscriptions.js";
import type { Store } from "../store/store.js";

// The subscriptions that the code of a worker has: declared before it claims anything, all at once, and kept while it lives.
// Retired by their own service when no process of it has them any more; of a service that is gone people are told.

export interface DeclaredSubscriptionsPorts {
  store: Store;
  service: string;
  readonly log: (level: "log" | "warn", message: string, params: object) => void;
}

const KEEP_EVERY_MS = 60_000;

export class DeclaredSubscriptions {
  #declaredAt: number | undefined;
  #keptAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly all: readonly NewSubscription[],
    private readonly ports: DeclaredSubscriptionsPorts,
  ) {}

  /** The tables are others: all is declared again. */
  forget(): void {
    this.#declaredAt = undefined;
    this.#keptAt = Number.NEGATIVE_INFINITY;
  }

  /** Declares all of them, unless that was done; says once a minute that they still are. Rejects when that cannot be. */
  async keep(): Promise<void> {
    const { store } = this.ports;
    if (!(await store.offers(EVENTS_SINCE))) {
      if (this.all.length > 0) await store.needs(EVENTS_SINCE, "subscriptions to events");
      return;
    }
    this.#declaredAt ??= await this.#declare();
    // The first event that is published finds its lane, and who waits for it.
    for (const { queue, kind, priority } of this.all) await store.lane(queue, kind, priority);
    if (performance.now() - this.#keptAt < KEEP_EVERY_MS) return;
    for (const orphan of await this.#keep(this.#declaredAt)) this.#tell(orphan);
    this.#keptAt = performance.now();
  }

  /** Answers when; monotonic ms. */
  async #declare(): Promise<number> {
    const { store, service, log } = this.ports;
    const before = this.all.length === 0 ? [] : await declare(store, service, this.all);
    for (const { event, kind, service: other } of before)
      log("warn", "A subscriber of the same name is taken over", {
        event,
        subscriber: kind,
        service,
        before: other,
      });
    return performance.now();
  }

  async #keep(since: number): Promise<Orphan[]> {
    const { store, service } = this.ports;
    const judges = performance.now() - since >= PATIENCE_MS;
    return await keep(store, service, this.all, judges).catch((error: unknown) => {
      // Grants that are older than the schema: who has none is not kept from working.
      if (isNotAllowed(error) && this.all.length === 0) return [];
      throw error;
    });
  }

  #tell({ event, kind, service, retired }: Orphan): void {
    const { log } = this.ports;
    const params = { event, subscriber: kind, service };
    if (retired) log("log", "A subscriber that nobody declares any more is retired", params);
    else if (service === this.ports.service)
      log("warn", "A subscriber is not declared any more: it will be retired", params);
    else
      log("warn", "A subscriber has not been declared for a day, and gets events all the same", {
        ...params,
        advice: "start its service, or jobs.unsubscribe(event, subscriber)",
      });
  }
}
