import { setTimeout as sleep } from "node:timers/promises";

/** So old it may be for whoever asks. */
const FRESH_MS = 1_000;
/** So old, when a newer one takes longer than {@link PATIENCE_MS}. */
const STALE_MS = 2_000;
const PATIENCE_MS = 20;

/** What was read, and when that began. */
export interface Reading<T> {
  readonly value: T;
  readonly at: Date;
}

interface Kept<T> extends Reading<T> {
  readonly since: number;
}

/** One reading for all who look: however many they are, there is one at a time, and one a second. */
export class SharedRead<T> {
  #kept: Kept<T> | undefined;
  #under: Promise<Kept<T>> | undefined;

  constructor(private readonly read: () => Promise<T>) {}

  /** Rejects as the reading does. */
  async get(): Promise<Reading<T>> {
    const kept = this.#kept;
    const age = kept ? performance.now() - kept.since : Number.POSITIVE_INFINITY;
    if (kept && age < FRESH_MS) return kept;
    const newer = (this.#under ??= this.#begin());
    if (!kept || age > STALE_MS) return await newer;
    const patience = new AbortController();
    const enough = sleep(PATIENCE_MS, kept, { signal: patience.signal }).catch(() => kept);
    return await Promise.race([newer, enough]).finally(() => patience.abort());
  }

  /** Something was changed: who looks from now on sees it. */
  forget(): void {
    this.#kept = undefined;
    this.#under = undefined;
  }

  #begin(): Promise<Kept<T>> {
    const begun = { since: performance.now(), at: new Date() };
    const under = this.read().then((value) => {
      const kept = { ...begun, value };
      if (this.#under === under) this.#kept = kept;
      return kept;
    });
    // Told to whoever waits for it; one who has had enough is told the next time.
    under
      .finally(() => {
        if (this.#under === under) this.#under = undefined;
      })
      .catch(() => undefined);
    return under;
  }
}
