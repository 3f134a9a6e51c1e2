import { Injectable, Optional } from "@nestjs/common";
import { JobInspector, type KindCounts, type QueueCounts, type QueueHealth } from "nestjs-pg-jobs";
import { type QueueRate, Rates } from "./rates.js";
import { SharedRead } from "./shared-read.js";

/** What `GET stats` answers. */
export interface Stats {
  /** When it was read; it is read once a second for all who look. */
  readAt: string;
  /** Jobs by queue, kind and state. */
  counts: KindCounts[];
  /** Since when jobs a second are counted, up to a minute; null: nobody has looked within the last minutes. */
  ratesSince: string | null;
  /** Backlog, lag, oldest job, dead letters, expired leases and rates of each queue. */
  queues: (QueueHealth & QueueRate)[];
  /** Kinds with waiting jobs that no live worker has a handler for. */
  unknownKinds: { queue: string; kind: string }[];
}

/** What grows with what lies in the tables, read once for all who look; a deed of this process is seen at once. */
@Injectable()
export class Snapshot {
  readonly #counts: SharedRead<KindCounts[]>;
  readonly #queues: SharedRead<QueueCounts[]>;
  readonly #health: SharedRead<QueueHealth[]>;
  readonly #unknownKinds: SharedRead<{ queue: string; kind: string }[]>;
  readonly #rates = new Rates();

  /** Without JobsModule the module of this API says so, and not Nest that it cannot make this. */
  constructor(@Optional() inspector: JobInspector) {
    this.#counts = new SharedRead(async () => {
      const at = new Date();
      const counts = await inspector.counts();
      this.#rates.note(counts, at);
      return counts;
    });
    this.#queues = new SharedRead(() => inspector.queues());
    this.#health = new SharedRead(() => inspector.health());
    this.#unknownKinds = new SharedRead(() => inspector.unknownKinds());
  }

  async stats(): Promise<Stats> {
    const [counts, queues, unknownKinds] = await Promise.all([
      this.#counts.get(),
      this.#health.get(),
      this.#unknownKinds.get(),
    ]);
    const oldest = [counts, queues, unknownKinds].reduce((a, b) => (a.at <= b.at ? a : b)).at;
    return {
      readAt: oldest.toISOString(),
      counts: counts.value,
      ratesSince: this.#rates.since?.toISOString() ?? null,
      queues: queues.value.map((one) => ({ ...one, ...this.#rates.of(one.queue) })),
      unknownKinds: unknownKinds.value,
    };
  }

  /** Each queue with its jobs by state. */
  async queues(): Promise<QueueCounts[]> {
    return (await this.#queues.get()).value;
  }

  /** How each queue is doing. */
  async health(): Promise<QueueHealth[]> {
    return (await this.#health.get()).value;
  }

  /** Something was done: who looks from now on sees it. */
  forget(): void {
    for (const one of [this.#counts, this.#queues, this.#health, this.#unknownKinds]) one.forget();
  }
}
