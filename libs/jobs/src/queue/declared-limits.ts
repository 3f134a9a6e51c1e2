import type { LimitRule } from "../job/limit.js";
import { isNotAllowed } from "../pg/sqlstate.js";
import { LIMITS_SINCE, WHOLE, own, saidOf, setRules } from "../store/limits/rules.js";
import { sweep } from "../store/limits/sweep.js";
import type { Store } from "../store/store.js";

// The limits that the code of a worker declares. They stand in the tables before it claims anything; what a call has
// changed since stays until the code says something else.

/** Whose jobs are bounded: a queue's, or, with a kind, those of its handler. */
export interface DeclaredLimit {
  queue: string;
  kind?: string;
  rules: readonly LimitRule[];
}

export interface DeclaredLimitsPorts {
  store: Store;
  service: string;
  /** Those of a queue are others: workers are to read them anew. */
  changed(queueId: number): void;
}

export class DeclaredLimits {
  constructor(
    private readonly all: readonly DeclaredLimit[],
    private readonly ports: DeclaredLimitsPorts,
  ) {}

  /** Sees to it that those of this queue hold; rejects when that cannot be. */
  async declare(queueId: number, queue: string): Promise<void> {
    const { store, service } = this.ports;
    const mine = this.all.filter((one) => one.queue === queue);
    if (mine.length > 0) await store.needs(LIMITS_SINCE, "limits over all processes");
    else if (!(await store.offers(LIMITS_SINCE))) return;
    const said = await saidOf(store, [queueId]).catch((error: unknown) => {
      // Grants that are older than the schema: who declares none is not kept from working.
      if (isNotAllowed(error) && mine.length === 0) return [];
      throw error;
    });
    const wanted = new Map(mine.map(({ kind = WHOLE, rules }) => [kind, rules]));
    let changed = false;
    for (const [kind, rules] of wanted) {
      const declared = JSON.stringify(rules);
      const known = said.find((one) => one.kind === kind);
      if (known?.declared === declared) {
        // Whoever said it last may take it away: that is this service now.
        if (known.service !== service) await own(store, queueId, { kind, declared, service });
        continue;
      }
      const order = { kind, rules, said: { declared, service } };
      changed = (await store.transaction((run) => setRules({ run }, queueId, order))) || changed;
    }
    // Declared once, and not any more by whoever did.
    for (const { kind, service: by } of said)
      if (by === service && !wanted.has(kind)) {
        const order = { kind, rules: [], said: null };
        changed = (await store.transaction((run) => setRules({ run }, queueId, order))) || changed;
      }
    if (!changed) return;
    await sweep(store.aside, queueId);
    this.ports.changed(queueId);
  }
}
