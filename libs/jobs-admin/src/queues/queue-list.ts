import type { JobQueue, LimitView, QueueCounts, QueueHealth, QueueView } from "nestjs-pg-jobs";
import type { Snapshot } from "../stats/snapshot.js";

/** A queue as `GET queues` shows it. */
export interface QueueSummary {
  name: string;
  createdAt: string;
  /** The kinds that it has ever had. */
  kinds: string[];
  /** Jobs by state; finished ones as far back as they are kept. */
  counts: Omit<QueueCounts, "queue" | "kinds" | "createdAt">;
  health: Omit<QueueHealth, "queue">;
  paused: QueueView["paused"];
  pausedKinds: QueueView["kinds"];
}

/** What `GET queues/:name` answers. */
export interface QueueDetails extends QueueSummary {
  limits: LimitView[];
}

/** All queues by name: those that all three reads have found. */
export async function queueList(snapshot: Snapshot, jobs: JobQueue): Promise<QueueSummary[]> {
  const [counted, healths, views] = await Promise.all([
    snapshot.queues(),
    snapshot.health(),
    jobs.queues.list(),
  ]);
  return counted.flatMap((counts) => {
    const health = healths.find(({ queue }) => queue === counts.queue);
    const view = views.find(({ name }) => name === counts.queue);
    return health && view ? [summary(counts, health, view)] : [];
  });
}

function summary(counted: QueueCounts, healthy: QueueHealth, view: QueueView): QueueSummary {
  const { queue: name, kinds, createdAt, ...counts } = counted;
  const { queue: _, ...health } = healthy;
  return { name, createdAt, kinds, counts, health, paused: view.paused, pausedKinds: view.kinds };
}
