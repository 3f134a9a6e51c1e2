import type { JobNews } from "./follow.js";
import { onAbort } from "./abort.js";

type Answer = IteratorResult<JobNews, void>;

interface Asked {
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
}

/** Told when a follower wants news, and when it does not, or not any more. */
export interface FollowerHooks {
  ask(): void;
  rest(): void;
}

const DONE: Answer = Object.freeze({ done: true, value: undefined });

/**
 * Whoever follows a job. No async function*: that keeps a `return()` waiting until its `next()` has an answer, and so
 * whoever has gone would be kept until the job has news.
 */
export class Follower implements AsyncGenerator<JobNews, void, undefined> {
  readonly #news: JobNews[] = [];
  readonly #asked: Asked[] = [];
  /** Nothing comes behind `#news`, but this error. */
  #ended: { error?: unknown } | undefined;
  #unhear: (() => void) | undefined;

  constructor(
    private readonly signal: AbortSignal | null,
    private readonly hooks: FollowerHooks,
  ) {}

  next(): Promise<Answer> {
    if (this.signal?.aborted) this.#leave();
    const value = this.#news.shift();
    if (value) return Promise.resolve({ done: false, value });
    if (this.#ended) return this.#end();
    return new Promise((resolve, reject) => {
      this.#asked.push({ resolve, reject });
      if (this.#asked.length > 1) return;
      if (this.signal) this.#unhear = onAbort(this.signal, () => this.#leave());
      this.hooks.ask();
    });
  }

  return(): Promise<Answer> {
    this.#leave();
    return Promise.resolve(DONE);
  }

  throw(error: unknown): Promise<Answer> {
    this.#leave();
    return Promise.reject(error as Error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  /** `last`: nothing comes after it. */
  tell(news: readonly JobNews[], last: boolean): void {
    if (this.#ended) return;
    this.#news.push(...news);
    if (last) this.#ended = {};
    while (this.#asked.length > 0 && this.#news.length > 0)
      this.#asked.shift()!.resolve({ done: false, value: this.#news.shift()! });
    if (this.#ended) this.#settle();
    if (this.#asked.length === 0) this.#rest();
  }

  fail(error: unknown): void {
    if (this.#ended) return;
    this.#ended = { error };
    this.#settle();
    this.#rest();
  }

  /** Nobody wants to hear any more. */
  #leave(): void {
    this.#news.length = 0;
    this.#ended = {};
    this.#settle();
    this.#rest();
  }

  /** Whoever asks once all is told. */
  #settle(): void {
    for (const { resolve, reject } of this.#asked.splice(0)) this.#end().then(resolve, reject);
  }

  /** An error is told once. */
  #end(): Promise<Answer> {
    const { error } = this.#ended!;
    this.#ended = {};
    return error === undefined ? Promise.resolve(DONE) : Promise.reject(error as Error);
  }

  #rest(): void {
    this.#unhear?.();
    this.#unhear = undefined;
    this.hooks.rest();
  }
}
