import { type Backend, endBackend } from "../pg/backend.js";
import { ConnectionLostError, type Word } from "../pg/session.js";
import { isTransient } from "../pg/sqlstate.js";
import type { Runner } from "../pg/statement.js";
import { StaleLanesError } from "../store/queues/standing.js";
import { type Store, isOutcomeUnknown, isUnavailable } from "../store/store.js";
import {
  type Holder,
  enqueue,
  enqueueAgain,
  enqueueKeyed,
  existing,
} from "../store/transitions/enqueue.js";
import { label } from "../store/transitions/label.js";
import type { NewJob } from "../store/transitions/new-jobs.js";
import { enqueueUnique } from "../store/transitions/enqueue-unique.js";

/** Jobs of one queue that go into one statement. */
export interface Part {
  queueId: number;
  jobs: readonly NewJob[];
}

/** The commit may or may not have happened, and the database stays away. */
export class StaysUnknownError extends Error {}

/** What has become of the jobs of one call. */
export interface Inserted {
  /** Who holds their keys, in order. */
  holders: readonly Holder[];
  /** Other processes have been told that the queue has something to do. */
  told: boolean;
}

/** For how long an unknown outcome is looked up before the caller is told. */
const PATIENCE_MS = 10_000;

/** How jobs are inserted that go together: each way is as dear as the keys need. */
export type Way = "keyless" | "keyed" | "unique";

export function wayOf(jobs: readonly NewJob[]): Way {
  let way: Way = "keyless";
  for (const { key, unique } of jobs) {
    if (unique) return "unique";
    if (key !== null) way = "keyed";
  }
  return way;
}

/** Mostly it is. With plain keys several may be needed, and behind a replacement one for headers: a call is all or nothing. */
function isOneStatement(jobs: readonly NewJob[]): boolean {
  const way = wayOf(jobs);
  if (way === "unique") return jobs.every(({ headers }) => headers === undefined);
  return way === "keyless" || jobs.length === 1;
}

/** Inserts jobs of one queue, all or none; answers in order who holds their keys now. */
export async function insertJobs(
  runner: Runner,
  { queueId, jobs }: Part,
  /** For how long a statement waits for keys at a time; absent: as long as its session does. */
  lockMs?: number,
): Promise<readonly Holder[]> {
  const way = wayOf(jobs);
  if (way === "unique") {
    const holders = await enqueueUnique(runner, queueId, jobs, lockMs);
    await label(runner, queueId, jobs, holders);
    return holders;
  }
  if (way === "keyed") return await enqueueKeyed(runner, queueId, jobs, lockMs);
  await enqueue(runner, queueId, jobs);
  return jobs;
}

/**
 * Inserts all parts or none, once, whatever happens to the connection. The ids are chosen before: after a lost
 * commit the same jobs are sent again, and those that are there already stay as they are.
 * @param options.word is sent right behind, when one statement does it.
 * @throws StaleLanesError when nothing was inserted, and lanes are to be looked up anew.
 * @throws StaysUnknownError when the commit was lost and the database stays away.
 */
export async function insertAll(
  store: Store,
  parts: readonly Part[],
  { word, lockMs }: { word?: Word | undefined; lockMs?: number } = {},
): Promise<(readonly Holder[])[]> {
  try {
    const [only] = parts;
    if (parts.length === 1 && isOneStatement(only!.jobs))
      return [
        await store.guard(() =>
          insertJobs(word ? store.session.with(word) : store.session, only!, lockMs),
        ),
      ];
    return await store.transaction((run) =>
      inTurn(parts, (part) => insertJobs({ run }, part, lockMs)),
    );
  } catch (error) {
    if (!isOutcomeUnknown(error)) throw error;
    return await again(store, error, () => insertOnce(store, parts));
  }
}

/**
 * Repeats what was lost sight of until it is answered; `work` must be harmless when it has been done before.
 * @throws StaysUnknownError when the database stays away.
 */
export async function again<T>(store: Store, first: unknown, work: () => Promise<T>): Promise<T> {
  let cause = first;
  const lost = new Set(backendOf(first));
  const deadline = performance.now() + PATIENCE_MS;
  for (let wait = 50; performance.now() < deadline; wait = Math.min(wait * 2, 1_000)) {
    try {
      // What was sent before must not be executed after it has been sent again.
      if (await haveEnded(store, lost)) return await work();
    } catch (error) {
      // A living schema loses no lane: if it was committed, then into tables that are gone.
      if (error instanceof StaleLanesError) throw error;
      cause = error;
      for (const backend of backendOf(error)) lost.add(backend);
      if (!isUnavailable(error) && !isOutcomeUnknown(error) && !isTransient(error)) break;
    }
    if (store.session.closed) break;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  throw new StaysUnknownError("the outcome of the commit stays unknown", { cause });
}

const backendOf = (error: unknown): Backend[] =>
  error instanceof ConnectionLostError && error.backend !== undefined ? [error.backend] : [];

async function haveEnded(store: Store, backends: Set<Backend>): Promise<boolean> {
  for (const backend of backends) {
    if (!(await endBackend(store.session, backend))) return false;
    backends.delete(backend);
  }
  return true;
}

class CommittedBefore extends Error {}

async function insertOnce(store: Store, parts: readonly Part[]): Promise<(readonly Holder[])[]> {
  try {
    return await store.transaction((run) =>
      inTurn(parts, async (part) => {
        // It knows its own jobs again by their ids, and looks before it writes.
        if (wayOf(part.jobs) === "unique") return await insertMissing({ run }, part);
        const before = await enqueueAgain({ run }, part.queueId, part.jobs);
        if (before.size > 0) throw new CommittedBefore();
        return await insertMissing({ run }, part);
      }),
    );
  } catch (error) {
    if (!(error instanceof CommittedBefore)) throw error;
    return await inTurn(parts, (part) => insertMissing(store, part));
  }
}

/** A call that had been deduplicated left no row behind; it is simply made again. */
async function insertMissing(runner: Runner, { queueId, jobs }: Part): Promise<readonly Holder[]> {
  const there = await existing(
    runner,
    queueId,
    jobs.map((job) => job.id),
  );
  const missing = jobs.filter((job) => !there.has(job.id));
  const holders = missing.length > 0 ? await insertJobs(runner, { queueId, jobs: missing }) : [];
  const holderOf = new Map(missing.map((job, index) => [job.id, holders[index]!]));
  return jobs.map((job) => holderOf.get(job.id) ?? job);
}

async function inTurn<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const item of items) results.push(await work(item));
  return results;
}
