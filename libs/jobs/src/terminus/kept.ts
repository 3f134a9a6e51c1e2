// What many ask for, and one call answers: those that come while it is under way wait for it, those that come soon after get
// the same. So it is for a failure too, or a database in trouble would be asked by every probe.

const FRESH_MS = 10_000;

export class LateError extends Error {
  override readonly name = "LateError";
}

export class Kept<T> {
  #last: { answer: Promise<T>; since: number; until: number } | undefined;

  constructor(private readonly ask: () => Promise<T>) {}

  /** The answer. @throws LateError once the call has been under way for so many ms, whoever began it. */
  async within(ms: number): Promise<T> {
    const { answer, since } = this.#current();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const left = Math.max(0, since + ms - performance.now());
      timer = setTimeout(() => reject(new LateError("no answer")), left);
    });
    try {
      return await Promise.race([answer, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #current() {
    const since = performance.now();
    if (this.#last && since < this.#last.until) return this.#last;
    const current = { answer: this.ask(), since, until: Number.POSITIVE_INFINITY };
    current.answer.then(
      () => (current.until = performance.now() + FRESH_MS),
      // It may have waited for long to fail, and meanwhile the database is back.
      () => (current.until = since + FRESH_MS),
    );
    return (this.#last = current);
  }
}
