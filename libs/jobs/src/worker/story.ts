import { reportError } from "../job/error-report.js";
import type { JobEvent, JobEventName } from "../job/event.js";
import type { Events } from "../observe/events.js";
import { millisOf } from "../store/instant.js";
import type { Attempt } from "./attempt.js";
import { monotonic } from "./held.js";
import type { Settlement } from "./settlement.js";

// What listeners in this process are told of attempts. Nothing is put together that nobody hears.

/** Made field by field: copies would be the dearest part of telling. */
type Draft = { -readonly [K in keyof JobEvent]: JobEvent[K] };

export class Story {
  /** Jobs of one list have one time: it is read once. */
  #runAt = "";
  #runAtMs = Number.NaN;

  constructor(
    private readonly events: Events,
    /** The server's clock, in ms; undefined while it is not known. */
    private readonly serverNow: () => number | undefined,
  ) {}

  started(attempt: Attempt): void {
    if (!this.events.heard("started")) return;
    const event = draft("started", attempt);
    const ms = Math.round((this.serverNow() ?? Number.NaN) - this.#dueAt(attempt.claim));
    if (!Number.isNaN(ms)) event.waitMs = Math.max(0, ms);
    this.events.emit(event);
  }

  settled(attempt: Attempt, settlement: Settlement): void {
    const name = EVENT_OF[settlement.verb];
    if (!this.events.heard(name)) return;
    const event = draft(name, attempt);
    if (attempt.startedAt > 0) event.durationMs = Math.round(monotonic() - attempt.startedAt);
    if ("delayMs" in settlement) event.delayMs = settlement.delayMs;
    if ("error" in settlement) event.error = reportError(settlement.error);
    if ("reason" in settlement) event.reason = settlement.reason;
    this.events.emit(event);
  }

  tell(event: JobEventName, attempt: Attempt, more: Partial<JobEvent> = {}): void {
    if (!this.events.heard(event)) return;
    this.events.emit(Object.assign(draft(event, attempt), more));
  }

  #dueAt({ runAt }: Attempt["claim"]): number {
    if (runAt !== this.#runAt) {
      this.#runAt = runAt;
      this.#runAtMs = millisOf(runAt);
    }
    return this.#runAtMs;
  }
}

const draft = (
  event: JobEventName,
  { id, kind, queue, attempt, failures, attempts }: Attempt,
): Draft => ({ event, id, kind, queue, attempt, failures, attempts });

const EVENT_OF: Record<Settlement["verb"], JobEventName> = {
  succeed: "succeeded",
  skip: "skipped",
  snooze: "snoozed",
  retry: "retried",
  bury: "died",
  "hand-back": "handed-back",
  cancel: "cancelled",
};
