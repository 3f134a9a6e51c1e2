import type { Session } from "../pg/session.js";
import { type Runner, Statement } from "../pg/statement.js";

const brief = new Statement(null, () => `set local lock_timeout = '100ms'`);

/** In a transaction that waits for each lock no longer than 0.1 s: everybody else of the session waits for it. */
export async function briefly<T>(
  session: Session,
  work: (runner: Runner) => Promise<T>,
): Promise<T> {
  return await session.transaction(async (run) => {
    await run(brief);
    return await work({ run });
  });
}
