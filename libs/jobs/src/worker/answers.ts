// Waiting for the answers of a transaction, whose connection may be gone, or somebody else's.

/** Our own last statements are answered within this time, or the connection is given up. */
const REPLY_MS = 25_000;

/** Rejects with the signal's reason when it aborts, whether the work heeds it or not. */
export async function abortable<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop!);
  }
}

/** An answer that does not come is a lost connection: half-open TCP says nothing. */
export class NoReplyError extends Error {
  override readonly name = "NoReplyError";
  constructor() {
    super(`no answer of the database within ${REPLY_MS} ms`);
  }
}

export async function replied<T>(
  answer: Promise<T>,
  giveUp: () => void = () => undefined,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new NoReplyError());
      giveUp();
    }, REPLY_MS);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** From our last statement on, somebody else's connection has so long for it, the commit or the rollback. */
export class Unanswered {
  #timer: NodeJS.Timeout | undefined;
  #reject: (error: Error) => void = () => undefined;
  readonly #late = new Promise<never>((_, reject) => (this.#reject = reject));

  start(): void {
    this.#timer = setTimeout(() => this.#reject(new NoReplyError()), 2 * REPLY_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  async race<T>(work: Promise<T>): Promise<T> {
    return await Promise.race([work, this.#late]);
  }
}
