import type { Runner } from "../pg/statement.js";
import { tellControl } from "../store/queues/wake.js";

/** How long after a hint there is no other. */
const TRAILING_MS = 10;
/** Of more, all are told. */
const MAX_WORKERS = 100;

/** The workers of this process, as those see them who tell them what to do. */
export interface LocalControl {
  /** Whether the worker of this id is one of this process: it has heard, and no other needs the hint. */
  control(worker: number): boolean;
}

// Workers are told that they have something to read: at once, then at most once per 10 ms. A hint that is lost costs a
// second, nothing else.
export class ControlHints {
  #timer: NodeJS.Timeout | undefined;
  readonly #unsaid = new Set<number>();

  constructor(
    private readonly runner: Runner,
    private readonly schema: string,
    private readonly enabled: boolean,
    private readonly local: LocalControl,
  ) {}

  /** The worker of this id has something to read. */
  tell(worker: number): void {
    if (this.local.control(worker) || !this.enabled) return;
    this.#unsaid.add(worker);
    if (this.#timer === undefined) this.#say();
  }

  /** Says now what is still to be said. */
  close(): void {
    this.#say();
    clearTimeout(this.#timer);
  }

  #say(): void {
    this.#timer = undefined;
    if (this.#unsaid.size === 0) return;
    const workers = this.#unsaid.size > MAX_WORKERS ? ("any" as const) : [...this.#unsaid];
    this.#unsaid.clear();
    tellControl(this.runner, this.schema, workers).catch(() => undefined);
    this.#timer = setTimeout(() => this.#say(), TRAILING_MS).unref();
  }
}
