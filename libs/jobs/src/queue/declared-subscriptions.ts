import {
  declare,
  EVENTS_SINCE,
  keep,
  type NewSubscription,
} from "../store/events/subscriptions.js";
import { isNotAllowed } from "../pg/sqlstate.js";
import type { Store } from "../store/store.js";

// The subscriptions that the code of a worker has: declared before it claims anything, kept while it lives, and retired by
// their own service when no process of it has them any more.

export type DeclaredSubscription = Omit<NewSubscription, "service">;

export interface DeclaredSubscriptionsPorts {
  store: Store;
  service: string;
  readonly log: (level: "log" | "warn", message: string, params: object) => void;
}

const KEEP_EVERY_MS = 60_000;

export class DeclaredSubscriptions {
  readonly #undeclared = new Set<DeclaredSubscription>();
  #keptAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly all: readonly DeclaredSubscription[],
    private readonly ports: DeclaredSubscriptionsPorts,
  ) {
    this.forget();
  }

  /** The tables are others: all is declared again. */
  forget(): void {
    for (const one of this.all) this.#undeclared.add(one);
    this.#keptAt = Number.NEGATIVE_INFINITY;
  }

  /** Declares what is not declared yet; says once a minute that it still is. Rejects when that cannot be. */
  async keep(): Promise<void> {
    const { store, service, log } = this.ports;
    if (!(await store.offers(EVENTS_SINCE))) {
      if (this.all.length > 0) await store.needs(EVENTS_SINCE, "subscriptions to events");
      return;
    }
    for (const one of this.#undeclared) await this.#declare(one);
    if (performance.now() - this.#keptAt < KEEP_EVERY_MS) return;
    const orphans = await keep(store, service, this.all).catch((error: unknown) => {
      // Grants that are older than the schema: who has none is not kept from working.
      if (isNotAllowed(error) && this.all.length === 0) return [];
      throw error;
    });
    for (const { event, kind, retired } of orphans) {
      const params = { event, subscriber: kind, service };
      if (retired) log("log", "A subscriber that nobody declares any more is retired", params);
      else log("warn", "A subscriber is not declared any more: it will be retired", params);
    }
    this.#keptAt = performance.now();
  }

  async #declare(one: DeclaredSubscription): Promise<void> {
    const { store, service, log } = this.ports;
    // The first event that is published finds its lane, and who waits for it.
    await store.lane(one.queue, one.kind, one.priority);
    const before = await declare(store, { ...one, service });
    this.#undeclared.delete(one);
    if (before !== undefined && before !== service)
      log("warn", "A subscriber of the same name is taken over", {
        event: one.event,
        subscriber: one.kind,
        service,
        before,
      });
  }
}
