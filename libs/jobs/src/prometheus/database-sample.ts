import type { JobInspector } from "../queue/job-inspector.js";
import type { KindCounts, QueueHealth } from "../store/reads/stats.js";
import type { QueueView } from "../store/queues/pauses.js";
import type { WorkerView } from "../store/reads/workers.js";

/** What the tables tell of all queues. */
export interface Tables {
  /** When they were read, by our clock, in ms. */
  readAt: number;
  health: QueueHealth[];
  counts: KindCounts[];
  unknownKinds: { queue: string; kind: string }[];
  workers: WorkerView[];
  pauses: QueueView[];
}

export interface DatabaseReads extends Pick<
  JobInspector,
  "counts" | "health" | "unknownKinds" | "workers"
> {
  pauses(): Promise<QueueView[]>;
}

const EVERY_MS = 10_000;
/** Whoever scrapes gives up after 10 s by default, and would then have nothing at all. */
const PATIENCE_MS = 3_000;
/** A reading that takes longer than a scrape waits serves the next one. */
const STALE_MS = 30_000;

/** Reads the tables at most once in 10 s, one reading at a time, and keeps nobody waiting for long. */
export class DatabaseSample {
  #last: Tables | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;
  #begunAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(private readonly reads: DatabaseReads) {}

  /** The last reading; undefined when it failed, or there was none for too long. Never rejects. */
  async read(): Promise<Tables | undefined> {
    const now = performance.now();
    if (!this.#reading && now - this.#begunAt >= EVERY_MS) {
      this.#begunAt = now;
      this.#reading = this.#readAll().finally(() => (this.#reading = undefined));
    }
    if (this.#reading) await within(this.#reading, PATIENCE_MS - (now - this.#begunAt));
    return performance.now() - this.#lastAt < STALE_MS ? this.#last : undefined;
  }

  async #readAll(): Promise<void> {
    const { reads } = this;
    try {
      const [health, counts, unknownKinds, workers, pauses] = await Promise.all([
        reads.health(),
        reads.counts(),
        reads.unknownKinds(),
        reads.workers(),
        reads.pauses(),
      ]);
      this.#last = { readAt: Date.now(), health, counts, unknownKinds, workers, pauses };
      this.#lastAt = performance.now();
    } catch {
      // It is away, or our role may not read: the gauge that says so is all that anybody can be told here.
      this.#last = undefined;
    }
  }
}

async function within(work: Promise<void>, ms: number): Promise<void> {
  if (ms <= 0) return;
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([work, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
