import { ConsoleLogger, Logger } from "@nestjs/common";
import type { JobEvent, JobEventName } from "../job/event.js";
import type { Events } from "./events.js";

// The only place that logs what happens to jobs: constant messages, the job beside them, never a payload.
// What goes well is not logged: at 100,000 jobs a second it would be the dearest part of them.

type Level = "log" | "warn" | "error" | "debug";

const MESSAGES: Partial<Record<JobEventName, [Level, string]>> = {
  retried: ["warn", "Job failed, will be retried"],
  died: ["error", "Job is dead"],
  lost: ["warn", "Job is in other hands: what this attempt did is not written"],
  "threw-late": [
    "error",
    "Handler threw after its transaction had committed: the job has succeeded",
  ],
  rescued: ["warn", "Job taken over from a worker that went silent"],
  snoozed: ["debug", "Job snoozed"],
  skipped: ["debug", "Job skipped"],
  "handed-back": ["log", "Job handed back"],
  requeued: ["log", "Job requeued"],
  cancelled: ["log", "Job cancelled"],
  deleted: ["log", "Job deleted"],
};

/** Starts to log the events that somebody should know of. */
export function logEvents(events: Events, logger: Logger = new Logger("Jobs")): () => void {
  return events.on(
    Object.keys(MESSAGES) as JobEventName[],
    (event) => {
      const [level, message] = MESSAGES[event.event]!;
      logger[level](message, describe(event));
    },
    // Asked each time: the app may choose its levels after this.
    (name) => shows(logger, MESSAGES[name]![0]),
  );
}

/** Only of Nest's own logger is it known; there may be none at all. */
function shows({ localInstance: used }: Logger, level: Level): boolean {
  return used instanceof ConsoleLogger ? used.isLevelEnabled(level) : Boolean(used);
}

function describe(event: JobEvent): object {
  const { id, kind, queue, attempt, failures, attempts, delayMs, durationMs, reason, error } =
    event;
  return Object.fromEntries(
    Object.entries({
      id,
      kind,
      queue,
      run: attempt,
      attempt: failures === undefined ? undefined : `${failures + 1}/${attempts}`,
      delayMs,
      durationMs,
      reason,
      error: error && `${error.name}: ${error.message}`,
    }).filter(([, value]) => value !== undefined),
  );
}
