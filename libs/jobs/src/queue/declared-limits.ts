import type { LimitRule } from "../job/limit.js";
import { isNotAllowed } from "../pg/sqlstate.js";
import {
  KEPT_SINCE,
  LIMITS_SINCE,
  type Said,
  WHOLE,
  forgottenOf,
  keep,
  own,
  saidOf,
  setRules,
} from "../store/limits/rules.js";
import { sweep } from "../store/limits/sweep.js";
import type { Store } from "../store/store.js";

// The limits that the code of a worker declares. They stand in the tables before it claims anything; what a call has
// changed since stays until the code says something else. While releases that say different things are at work, what was
// said last holds for as long as a worker that says so lives.

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

const KEEP_EVERY_MS = 60_000;
/** Who could not say so for this long does not judge what others have not said: the database may have been away. */
const SILENT_MS = 120_000;

export class DeclaredLimits {
  readonly #queues = new Map<number, string>();
  #keptAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly all: readonly DeclaredLimit[],
    private readonly ports: DeclaredLimitsPorts,
  ) {}

  /** The tables are others. */
  forget(): void {
    this.#queues.clear();
  }

  /** Sees to it that those of this queue hold; rejects when that cannot be. */
  async declare(queueId: number, queue: string): Promise<void> {
    const { store, service } = this.ports;
    const mine = this.#of(queueId, queue);
    if (mine.length > 0) await store.needs(LIMITS_SINCE, "limits over all processes");
    else if (!(await store.offers(LIMITS_SINCE))) return;
    this.#queues.set(queueId, queue);
    const said = await this.#read(() => saidOf(store, [queueId]));
    let changed = false;
    for (const one of mine) {
      const known = said.find(({ kind }) => kind === one.kind);
      if (known?.declared !== one.declared) changed = (await this.#set(one)) || changed;
      // Whoever said it last may take it away: that is this service now.
      else if (known.service !== service) await own(store, queueId, { ...one, service });
    }
    // Others that live may still say so.
    if (await store.offers(KEPT_SINCE)) {
      if (mine.length > 0) await keep(store, mine);
      changed = (await this.#adopt([queueId])).size > 0 || changed;
    } else for (const one of said) changed = (await this.#unset(one)) || changed;
    if (changed) await this.#changed(queueId);
  }

  /** Says once a minute that it still is so; and sees to what nobody says any more. */
  async keep(): Promise<void> {
    const { store } = this.ports;
    const silentMs = performance.now() - this.#keptAt;
    if (this.#queues.size === 0 || silentMs < KEEP_EVERY_MS) return;
    if (!(await store.offers(KEPT_SINCE))) return;
    const ids = [...this.#queues.keys()];
    const all = [...this.#queues].flatMap((queue) => this.#of(...queue));
    if (all.length > 0) await keep(store, all);
    const judges = silentMs < SILENT_MS || this.#keptAt === Number.NEGATIVE_INFINITY;
    this.#keptAt = performance.now();
    if (!judges) return;
    const changed = await this.#adopt(ids);
    for (const queueId of await this.#again(all)) changed.add(queueId);
    for (const queueId of changed) await this.#changed(queueId);
  }

  /** Somebody who said nothing has taken away what this process says. */
  async #again(all: readonly (Said & { rules: readonly LimitRule[] })[]): Promise<Set<number>> {
    const changed = new Set<number>();
    if (all.length === 0) return changed;
    const said = await saidOf(this.ports.store, [...new Set(all.map(({ queueId }) => queueId))]);
    for (const one of all)
      if (!said.some(({ queueId, kind }) => queueId === one.queueId && kind === one.kind))
        if (await this.#set(one)) changed.add(one.queueId);
    return changed;
  }

  /**
   * What nobody says any more is what this process says, if it is this service that said it, or if this one says something.
   * Answers the queues of which others hold.
   */
  async #adopt(queueIds: readonly number[]): Promise<Set<number>> {
    const { store } = this.ports;
    const changed = new Set<number>();
    for (const one of await this.#read(() => forgottenOf(store, queueIds))) {
      const mine = this.#of(one.queueId, this.#queues.get(one.queueId)!);
      const other = mine.find(({ kind }) => kind === one.kind);
      if (await (other ? this.#set(other) : this.#unset(one))) changed.add(one.queueId);
    }
    return changed;
  }

  #of(queueId: number, queue: string): (Said & { rules: readonly LimitRule[] })[] {
    return this.all
      .filter((one) => one.queue === queue)
      .map(({ kind = WHOLE, rules }) => ({
        queueId,
        kind,
        rules,
        declared: JSON.stringify(rules),
      }));
  }

  /** Grants that are older than the schema: who declares none is not kept from working. */
  async #read<T>(read: () => Promise<T[]>): Promise<T[]> {
    return await read().catch((error: unknown) => {
      if (isNotAllowed(error) && this.all.length === 0) return [];
      throw error;
    });
  }

  async #set(one: Said & { rules: readonly LimitRule[] }): Promise<boolean> {
    const { store, service } = this.ports;
    const { queueId, kind, rules, declared } = one;
    const order = { kind, rules, said: { declared, service } };
    const kept = await store.offers(KEPT_SINCE);
    return await store.transaction(async (run) => {
      const changed = await setRules({ run }, queueId, order);
      if (kept) await keep({ run }, [one]);
      return changed;
    });
  }

  /** Declared once, and not any more by whoever did. */
  async #unset({ queueId, kind, service }: Said & { service: string }): Promise<boolean> {
    const mine = this.#of(queueId, this.#queues.get(queueId)!);
    if (service !== this.ports.service || mine.some((one) => one.kind === kind)) return false;
    const order = { kind, rules: [], said: null };
    return await this.ports.store.transaction((run) => setRules({ run }, queueId, order));
  }

  async #changed(queueId: number): Promise<void> {
    await sweep(this.ports.store.aside, queueId);
    this.ports.changed(queueId);
  }
}
