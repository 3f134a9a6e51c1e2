import { inspect } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";

export interface UntilOptions {
  /** In ms; what is waited for on a machine that is slow, or stands still for a while, has come by then. */
  timeout?: number;
  every?: number;
  /** Completes "gave up waiting until …". */
  what?: string;
}

type Truthy<T> = Exclude<T, false | 0 | "" | null | undefined>;

/**
 * Repeats `check` until it returns something truthy, and returns that. A check that throws counts
 * as "not yet". The only way the specs wait.
 */
export async function until<T>(
  check: () => T | Promise<T>,
  { timeout = 20_000, every = 20, what = "the check holds" }: UntilOptions = {},
): Promise<Truthy<T>> {
  const end = performance.now() + timeout;
  for (;;) {
    const { value, failed } = await attempt(check, end - performance.now());
    if (value && !failed) return value as Truthy<T>;
    if (performance.now() >= end) {
      const last = failed ? "error" : "value";
      throw new Error(
        `gave up waiting until ${what} after ${timeout} ms; last ${last}: ${inspect(value)}`,
      );
    }
    await sleep(every);
  }
}

/** One call of the check; a call that never comes back ends with the time that is left. */
async function attempt(check: () => unknown, left: number) {
  const late = new AbortController();
  const noAnswer = sleep(Math.max(left, 0), undefined, { signal: late.signal }).then(
    () => ({ value: new Error("the check did not return in time"), failed: true }),
    () => ({ value: undefined, failed: true }),
  );
  const answer = Promise.resolve()
    .then(check)
    .then(
      (value) => ({ value, failed: false }),
      (error: unknown) => ({ value: error, failed: true }),
    );
  try {
    return await Promise.race([answer, noAnswer]);
  } finally {
    late.abort();
  }
}

/** Waits until the transaction that is open here has been so for so long, by PostgreSQL's clock. */
export async function openFor(
  tx: { query(sql: string): Promise<unknown> },
  ms: number,
): Promise<void> {
  await until(
    async () => {
      const found = await tx.query(
        `select clock_timestamp() - now() > interval '${ms} ms' as long`,
      );
      const rows = Array.isArray(found) ? found : (found as { rows: unknown[] }).rows;
      return (rows[0] as { long: boolean }).long;
    },
    { what: `the transaction has been open for ${ms} ms` },
  );
}
