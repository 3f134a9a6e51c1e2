/** Waits for the next tick of any schedule, and has it seen to, one at a time. */
export class TickTimer {
  #timer: NodeJS.Timeout | undefined;
  #at = Number.POSITIVE_INFINITY;
  #firing = false;

  /** `fire` never rejects, and answers whether it had any; `fired`: what is due next can be seen now. */
  constructor(
    private readonly fire: () => Promise<boolean>,
    private readonly fired: () => void,
  ) {}

  /** A tick comes in so many ms; when it is over already, now. */
  in(ms: number): void {
    const at = performance.now() + Math.max(0, ms);
    if (this.#firing || at >= this.#at) return;
    this.stop();
    this.#at = at;
    // A timer may be early by a part of a millisecond, and the server would say that there is nothing yet.
    this.#timer = setTimeout(() => void this.#seeTo(), ms > 0 ? Math.ceil(ms) + 1 : 0).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#at = Number.POSITIVE_INFINITY;
  }

  async #seeTo(): Promise<void> {
    this.stop();
    this.#firing = true;
    const any = await this.fire();
    this.#firing = false;
    if (any) this.fired();
  }
}
