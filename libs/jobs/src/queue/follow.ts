import { formatLogCursor, parseLogPage } from "../job/log-page.js";
import { parseFollowOptions, type FollowOptions } from "../job/follow-options.js";
import { type JobState, QUEUED, RUNNING } from "../job/state.js";
import { get } from "../store/reads/job.js";
import { type JobLogLine, type JobProgress, lines } from "../store/reads/reports.js";
import type { Runner } from "../pg/statement.js";

/** What is new of a job. */
export type JobNews =
  /** It is in another state, or another attempt of it runs; `gone`: it is not there, or not kept any more. */
  | { readonly type: "state"; readonly state: JobState | "gone"; readonly attempt: number }
  | { readonly type: "progress"; readonly progress: JobProgress }
  /** `after` leads to the lines behind it. */
  | { readonly type: "log"; readonly line: JobLogLine; readonly after: string };

const EVERY_MS = 1_000;
const LINES = 1_000;

/** Tells of a job what has come since it last looked, once a second, until it is over. */
export async function* follow(
  runner: Runner,
  queueId: number,
  number: string,
  options: FollowOptions | undefined,
): AsyncGenerator<JobNews, void, undefined> {
  const { signal, after } = parseFollowOptions(options);
  let place = parseLogPage(after === undefined ? {} : { after }).after;
  let told = "";
  let progressAt = "";
  while (!signal?.aborted) {
    // Its end is written after its last lines: whoever has seen it sees all of them.
    const job = await get(runner, queueId, number, true);
    const over = job?.state !== QUEUED && job?.state !== RUNNING;
    const state = {
      type: "state",
      state: job?.state ?? "gone",
      attempt: job?.attempt ?? 0,
    } as const;
    const changed = told !== `${state.state} ${state.attempt}`;
    told = `${state.state} ${state.attempt}`;
    if (changed && !over) yield state;
    if (job?.progress && job.progress.at !== progressAt) {
      progressAt = job.progress.at;
      yield { type: "progress", progress: job.progress };
    }
    for (let page = LINES; page === LINES;) {
      const found = await lines(runner, queueId, number, place, null, LINES);
      page = found.length;
      for (const line of found) {
        place = { attempt: line.attempt, line: line.line };
        yield { type: "log", line, after: formatLogCursor(line) };
      }
    }
    if (over) return yield state;
    await rest(EVERY_MS, signal);
  }
}

/** Until the time is over, or the signal aborts. */
async function rest(ms: number, signal: AbortSignal | null): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
    if (signal?.aborted) end();
  });
}
