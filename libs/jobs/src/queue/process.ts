import { NoWorkerError } from "../job/errors.js";
import type { ParsedProcessOptions } from "../job/process-options.js";
import { type DueJob, due, served, whereabouts } from "../store/reads/due.js";
import type { Store } from "../store/store.js";
import { onAbort } from "./abort.js";
import type { Hints } from "./hints.js";

// Works off what is due now, by the workers that serve the queue: the jobs that come next are noted, all workers are told,
// and what became of the jobs is counted. Nothing but claims starts a job, so no order or limit is passed by.

/** What became of the jobs that were due. */
export interface ProcessReport {
  /** How many were due and came first. */
  jobs: number;
  succeeded: number;
  skipped: number;
  cancelled: number;
  dead: number;
  /** They ran and went back: failed, to be retried; snoozed; handed back. */
  retried: number;
  /** They are over and have left nothing (`keep: false`), or were deleted. */
  gone: number;
  /** Not over when the time was. */
  running: number;
  waiting: number;
}

const LOOK_MS = 200;

export async function process(
  store: Store,
  hints: Hints,
  queue: { id: number; name: string },
  { kind, limit, timeoutMs, signal }: ParsedProcessOptions,
): Promise<ProcessReport> {
  signal?.throwIfAborted();
  const until = performance.now() + timeoutMs;
  const jobs = await due(store.aside, queue.id, kind, limit);
  if (jobs.length === 0 && !(await served(store.aside, queue.id, kind)))
    throw new NoWorkerError(queue.name, kind);
  for (const one of new Set(jobs.map((job) => job.kind))) hints.hint(queue.id, one, true);
  // A local worker that has a free slot may have kept it from others.
  if (jobs.length > 0) hints.tellOthers({ queueId: queue.id, behind: true });
  for (;;) {
    const report = await count(store, queue.id, jobs);
    const ms = Math.min(LOOK_MS, until - performance.now());
    if (report.running + report.waiting === 0 || ms <= 0) return report;
    await pause(ms, signal);
  }
}

async function count(
  store: Store,
  queueId: number,
  jobs: readonly DueJob[],
): Promise<ProcessReport> {
  const report: ProcessReport = {
    jobs: jobs.length,
    succeeded: 0,
    skipped: 0,
    cancelled: 0,
    dead: 0,
    retried: 0,
    gone: 0,
    running: 0,
    waiting: 0,
  };
  if (jobs.length === 0) return report;
  const ids = jobs.map(({ id }) => id);
  const places = await whereabouts(store.aside, queueId, ids);
  for (const { id, attempt } of jobs) {
    const place = places.get(id);
    if (place === undefined) report.gone++;
    else if (place.state !== "queued") report[place.state as keyof ProcessReport]++;
    else if (place.attempt > attempt) report.retried++;
    else report.waiting++;
  }
  return report;
}

async function pause(ms: number, signal: AbortSignal | null): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      forget?.();
      resolve();
    };
    const timer = setTimeout(end, ms);
    const forget = signal
      ? onAbort(signal, () => {
          clearTimeout(timer);
          reject(signal.reason as Error);
        })
      : undefined;
  });
}
