/** Ends things that take too long: one timer for all of them, none per item. */
export class Deadlines<T> {
  // Items of one duration end in the order in which they began, and a Map keeps that order.
  readonly #byDuration = new Map<number, Map<T, number>>();
  #timer: NodeJS.Timeout | undefined;
  #firesAt = Number.POSITIVE_INFINITY;

  constructor(private readonly onPassed: (item: T) => void) {}

  add(item: T, ms: number): void {
    let items = this.#byDuration.get(ms);
    if (!items) this.#byDuration.set(ms, (items = new Map()));
    const deadline = performance.now() + ms;
    items.set(item, deadline);
    if (deadline < this.#firesAt) this.#schedule(deadline);
  }

  remove(item: T, ms: number): void {
    this.#byDuration.get(ms)?.delete(item);
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#byDuration.clear();
    this.#firesAt = Number.POSITIVE_INFINITY;
  }

  #schedule(deadline: number): void {
    clearTimeout(this.#timer);
    this.#firesAt = deadline;
    if (deadline === Number.POSITIVE_INFINITY) return;
    // Node takes a longer delay for 1 ms.
    const ms = Math.min(Math.max(0, deadline - performance.now()), 2_147_483_647);
    this.#timer = setTimeout(() => this.#fire(), Math.ceil(ms));
    this.#timer.unref();
  }

  #fire(): void {
    const now = performance.now();
    const passed: T[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const [ms, items] of this.#byDuration) {
      for (const [item, deadline] of items) {
        if (deadline > now) {
          next = Math.min(next, deadline);
          break;
        }
        items.delete(item);
        passed.push(item);
      }
      if (items.size === 0) this.#byDuration.delete(ms);
    }
    this.#firesAt = Number.POSITIVE_INFINITY;
    if (next !== Number.POSITIVE_INFINITY) this.#schedule(next);
    for (const item of passed) this.onPassed(item);
  }
}
