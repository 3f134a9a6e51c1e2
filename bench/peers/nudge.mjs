const QUIET_MS = 10;

/** Tells workers of new jobs: at once when it was quiet, then at most once in 10 ms. */
export class Nudge {
  #send;
  #timer;
  #again = false;

  constructor(send) {
    this.#send = send;
  }

  give() {
    if (this.#timer) {
      this.#again = true;
      return;
    }
    void this.#send();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (!this.#again) return;
      this.#again = false;
      this.give();
    }, QUIET_MS);
  }
}
