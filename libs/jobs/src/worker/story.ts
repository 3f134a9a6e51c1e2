import { reportError } from "../job/error-report.js";
import type { JobEvent, JobEventName } from "../job/event.js";
import type { Events } from "../observe/events.js";
import { millisOf } from "../store/instant.js";
import type { Attempt } from "./attempt.js";
import { monotonic } from "./held.js";
import type { Settlement } from "./settlement.js";

// What listeners in this process are told of attempts. Nothing is put together that nobody hears.

export class Story {
  constructor(
    private readonly events: Events,
    /** The server's clock, in ms; undefined while it is not known. */
    private readonly serverNow: () => number | undefined,
  ) {}

  started(attempt: Attempt): void {
    if (!this.events.heard("started")) return;
    const ms = Math.round((this.serverNow() ?? Number.NaN) - millisOf(attempt.claim.runAt));
    this.tell("started", attempt, Number.isNaN(ms) ? {} : { waitMs: Math.max(0, ms) });
  }

  settled(attempt: Attempt, settlement: Settlement): void {
    const name = EVENT_OF[settlement.verb];
    if (!this.events.heard(name)) return;
    this.tell(name, attempt, {
      ...(attempt.startedAt > 0 ? { durationMs: Math.round(monotonic() - attempt.startedAt) } : {}),
      ...("delayMs" in settlement ? { delayMs: settlement.delayMs } : {}),
      ...("error" in settlement ? { error: reportError(settlement.error) } : {}),
      ...("reason" in settlement ? { reason: settlement.reason } : {}),
    });
  }

  tell(event: JobEventName, attempt: Attempt, more: Partial<JobEvent> = {}): void {
    if (!this.events.heard(event)) return;
    const { id, kind, queue, failures, attempts } = attempt;
    this.events.emit({
      event,
      id,
      kind,
      queue,
      attempt: attempt.attempt,
      failures,
      attempts,
      ...more,
    });
  }
}

const EVENT_OF: Record<Settlement["verb"], JobEventName> = {
  succeed: "succeeded",
  skip: "skipped",
  snooze: "snoozed",
  retry: "retried",
  bury: "died",
  "hand-back": "handed-back",
  cancel: "cancelled",
};
