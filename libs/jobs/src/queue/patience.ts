import type { Session } from "../pg/session.js";
import { isLockTimeout, isRowLocked } from "../pg/sqlstate.js";
import type { NewJob } from "../store/transitions/new-jobs.js";

// All calls of a process go through one session, and whoever waits there for a lock keeps everybody waiting. So a
// statement with keys waits for a moment only; then its calls are put back, and sent again until their time is over.

/** For how long a call waits for what a stranger has locked; a statement without keys waits as long by itself. */
export const PATIENCE_MS = 2_000;

/** How long a statement waits for a key: what others are just committing is there by then. */
export const BRIEF_MS = 50;

export const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 200;
export const longer = (pause: number): number => Math.min(pause * 2, LAST_PAUSE_MS);

/** When the time is over of what has now met a lock for the first time. */
export const deadline = (): number => performance.now() + PATIENCE_MS - BRIEF_MS;

/** It was the lock of a table, for which everything in the session's last statement has waited, and long enough. */
export const waitedForAll = (error: unknown, { heardAt }: Session): boolean =>
  !isRowLocked(error) && performance.now() - heardAt >= PATIENCE_MS - BRIEF_MS;

export const sleep = async (ms: number): Promise<void> =>
  await new Promise((resolve) => setTimeout(resolve, ms));

/** Does again what has met the lock of a key until its time is over; `lockMs` is how long it may wait for keys each time. */
export async function patiently<T>(
  session: Session,
  jobs: readonly Pick<NewJob, "key">[],
  work: (lockMs?: number) => Promise<T>,
): Promise<T> {
  if (jobs.every(({ key }) => key === null)) return await work();
  let until: number | undefined;
  for (let pause = FIRST_PAUSE_MS; ; pause = longer(pause)) {
    try {
      return await work(BRIEF_MS);
    } catch (error) {
      if (!isLockTimeout(error) || waitedForAll(error, session)) throw error;
      until ??= deadline();
      if (performance.now() >= until) throw error;
    }
    await sleep(pause);
  }
}
