import type { Attempt } from "./attempt.js";

/** Jobs of a batch handler that have a slot and wait for others to be called together with. */
export class Gathering {
  #waiting: Attempt[] = [];
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Immediate | undefined;

  constructor(
    private readonly options: { size: number; waitMs: number },
    private readonly call: (attempts: Attempt[]) => void,
  ) {}

  add(attempt: Attempt): void {
    this.#waiting.push(attempt);
    if (this.#waiting.length >= this.options.size) return this.flush();
    if (this.#waiting.length > 1) return;
    // Those that the same claim has brought are added before anything else happens.
    if (this.options.waitMs === 0) this.#soon = setImmediate(() => this.flush());
    else this.#timer = setTimeout(() => this.flush(), this.options.waitMs);
  }

  /** Those of them that wait; they are not waiting any more. */
  take(which: (attempt: Attempt) => boolean): Attempt[] {
    const taken = this.#waiting.filter(which);
    if (taken.length === 0) return taken;
    this.#waiting = this.#waiting.filter((attempt) => !which(attempt));
    if (this.#waiting.length === 0) this.#stop();
    return taken;
  }

  /** It is over before it could be called; answers whether it waited. */
  remove(attempt: Attempt): boolean {
    const at = this.#waiting.indexOf(attempt);
    if (at === -1) return false;
    this.#waiting.splice(at, 1);
    if (this.#waiting.length === 0) this.#stop();
    return true;
  }

  count(which: (attempt: Attempt) => boolean): number {
    return this.#waiting.filter(which).length;
  }

  /** Calls those that wait. */
  flush(): void {
    this.#stop();
    const attempts = this.#waiting;
    this.#waiting = [];
    this.call(attempts);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#soon);
  }
}
