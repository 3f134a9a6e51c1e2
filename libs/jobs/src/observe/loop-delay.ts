import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";

/** The delays of the event loop, in seconds. */
export interface LoopDelays {
  p50: number;
  p99: number;
  max: number;
}

const EVERY_MS = 20;
/** Two who scrape at the same time see the same delays, and none is lost between two scrapes. */
const WINDOW_MS = 10_000;

/** How late timers of this process fire. */
export class LoopDelay {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: EVERY_MS });
  #last: LoopDelays | undefined;
  #since = performance.now();

  constructor(private readonly windowMs = WINDOW_MS) {
    this.#histogram.enable();
  }

  /** Those since the reading before, unless that was a moment ago: then what it read. */
  read(): LoopDelays {
    const now = performance.now();
    if (this.#last && now - this.#since < this.windowMs) return this.#last;
    const late = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - EVERY_MS / 1e3);
    const { max } = this.#histogram;
    const [p50, p99] = [50, 99].map((share) => late(this.#histogram.percentile(share)));
    this.#last = { p50: p50!, p99: p99!, max: late(max) };
    this.#since = now;
    this.#histogram.reset();
    return this.#last;
  }

  stop(): void {
    this.#histogram.disable();
  }
}
