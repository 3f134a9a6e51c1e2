const IDLE_MS = 1_000;

/** Claims, runs, settles, and nothing else: a claim overlaps with the settle before it. */
export class StatementLoop {
  #claim;
  #settle;
  #handle;
  #payloadOf;
  #closed = false;
  #wanted = false;
  #wake = () => {};
  #done;

  /** `settle` answers whether there may be more to claim at once. */
  constructor({ claim, settle, handle, payloadOf }) {
    this.#claim = claim;
    this.#settle = settle;
    this.#handle = handle;
    this.#payloadOf = payloadOf;
  }

  start() {
    this.#done = this.#run();
  }

  wake() {
    this.#wanted = true;
    this.#wake();
  }

  async close() {
    this.#closed = true;
    this.#wake();
    await this.#done;
  }

  async #run() {
    let settling = Promise.resolve(false);
    while (!this.#closed) {
      this.#wanted = false;
      const jobs = await this.#claim();
      if (jobs.length > 0) {
        const ended = await this.#runAll(jobs);
        await settling;
        settling = this.#settle(ended);
      } else if (!(await settling) && !this.#wanted) await this.#idle();
      else settling = Promise.resolve(false);
    }
    await settling;
  }

  async #runAll(jobs) {
    const succeeded = [];
    const failed = [];
    const waits = [];
    for (const job of jobs) {
      try {
        const result = this.#handle(this.#payloadOf(job));
        if (result) waits.push(result);
        succeeded.push(job);
      } catch (error) {
        failed.push({ job, error });
      }
    }
    if (waits.length > 0) await Promise.all(waits);
    return { succeeded, failed };
  }

  async #idle() {
    let timer;
    await new Promise((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, IDLE_MS);
    });
    clearTimeout(timer);
    this.#wake = () => {};
  }
}
