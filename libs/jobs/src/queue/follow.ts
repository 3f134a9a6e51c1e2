import { formatJobId, parseJobId } from "../job/job-id.js";
import { formatLogCursor, parseLogPage } from "../job/log-page.js";
import { type JobState, QUEUED, RUNNING } from "../job/state.js";
import type { LinesAfter, Whereabouts } from "../store/reads/news.js";
import type { JobLogLine, JobProgress } from "../store/reads/reports.js";

/** What is new of a job. */
export type JobNews =
  /** It is in another state, or another attempt of it runs; `gone`: it is not there, or not kept any more. */
  | { readonly type: "state"; readonly state: JobState | "gone"; readonly attempt: number }
  | { readonly type: "progress"; readonly progress: JobProgress }
  /** `after` leads to the lines behind it. */
  | { readonly type: "log"; readonly line: JobLogLine; readonly after: string };

/** So many lines are read at a time. */
export const LINES = 100;

/** A job that is followed, and what has been told of it. */
export class Followed implements LinesAfter {
  readonly id: string;
  readonly queueId: number;
  readonly number: string;
  after: LinesAfter["after"];
  /** There are more lines already. */
  behind = true;
  /** All is told. */
  over = false;
  #state = "";
  #progressAt = "";

  /** @throws BadJobIdError, BadCursorError */
  constructor(id: string, after: string | undefined) {
    ({ queueId: this.queueId, number: this.number } = parseJobId(id));
    this.id = formatJobId(this.queueId, this.number);
    this.after = parseLogPage(after === undefined ? {} : { after }).after;
  }

  /** What has come since the last look; where it was is to be looked up before its lines, which are written before its end. */
  *newsOf(found: Whereabouts | undefined, lines: readonly JobLogLine[]): Generator<JobNews> {
    const { state, attempt, progress } = found ?? { state: "gone", attempt: 0, progress: null };
    this.behind = lines.length === LINES;
    const ended = state !== QUEUED && state !== RUNNING;
    const news = { type: "state", state, attempt } as const;
    if (!ended && this.#state !== `${state} ${attempt}`) {
      this.#state = `${state} ${attempt}`;
      yield news;
    }
    if (progress && progress.at !== this.#progressAt) {
      this.#progressAt = progress.at;
      yield { type: "progress", progress };
    }
    for (const line of lines) {
      this.after = { attempt: line.attempt, line: line.line };
      yield { type: "log", line, after: formatLogCursor(line) };
    }
    this.over = ended && !this.behind;
    if (this.over) yield news;
  }
}
