/** Things of one duration: they end in the order in which they began. */
interface Line {
  readonly empty: boolean;
  /** At the end, wherever it was before. */
  add(item: Timed, deadline: number): void;
  remove(item: Timed): void;
  /** Takes those out whose time is up; answers when that of the next one will be. `performance.now()`. */
  takePassed(now: number, passed: Timed[]): number;
}

/**
 * What may take too long. Its place in line hangs on itself, where nobody else sees it: why not in a Map, see
 * `AttemptTable`.
 */
export class Timed {
  // oxlint-disable no-unused-private-class-members -- the class within uses them
  #line: Line | undefined;
  #before: Timed | undefined;
  #behind: Timed | undefined;
  #deadline = 0;
  // oxlint-enable no-unused-private-class-members

  static readonly Line: new () => Line = class {
    #first: Timed | undefined;
    #last: Timed | undefined;

    get empty(): boolean {
      return this.#first === undefined;
    }

    add(item: Timed, deadline: number): void {
      item.#line?.remove(item);
      item.#line = this;
      item.#deadline = deadline;
      item.#before = this.#last;
      if (this.#last) this.#last.#behind = item;
      else this.#first = item;
      this.#last = item;
    }

    remove(item: Timed): void {
      if (item.#line !== this) return;
      if (item.#before) item.#before.#behind = item.#behind;
      else this.#first = item.#behind;
      if (item.#behind) item.#behind.#before = item.#before;
      else this.#last = item.#before;
      // One that is over must not keep alive who came after it.
      item.#line = item.#before = item.#behind = undefined;
    }

    takePassed(now: number, passed: Timed[]): number {
      for (let item = this.#first; item; item = this.#first) {
        if (item.#deadline > now) return item.#deadline;
        this.remove(item);
        passed.push(item);
      }
      return Number.POSITIVE_INFINITY;
    }
  };
}

/** Ends things that take too long: one timer for all of them, none per item. */
export class Deadlines<T extends Timed> {
  readonly #byDuration = new Map<number, Line>();
  #timer: NodeJS.Timeout | undefined;
  #firesAt = Number.POSITIVE_INFINITY;

  constructor(private readonly onPassed: (item: T) => void) {}

  /** It waits here alone from now on. */
  add(item: T, ms: number): void {
    let line = this.#byDuration.get(ms);
    if (!line) this.#byDuration.set(ms, (line = new Timed.Line()));
    const deadline = performance.now() + ms;
    line.add(item, deadline);
    if (deadline < this.#firesAt) this.#schedule(deadline);
  }

  remove(item: T, ms: number): void {
    this.#byDuration.get(ms)?.remove(item);
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
    for (const [ms, line] of this.#byDuration) {
      next = Math.min(next, line.takePassed(now, passed));
      if (line.empty) this.#byDuration.delete(ms);
    }
    this.#firesAt = Number.POSITIVE_INFINITY;
    if (next !== Number.POSITIVE_INFINITY) this.#schedule(next);
    for (const item of passed) this.onPassed(item);
  }
}
