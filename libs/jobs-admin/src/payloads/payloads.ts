import type { AttemptError, BulkView, ErrorReport, HistoryEvent, LimitView } from "nestjs-pg-jobs";
import type { AdminOperator } from "../auth/operator.js";
import { type AdminRole, reaches } from "../auth/roles.js";
import { REDACTED, type Redaction } from "./redaction.js";

/** Said in an answer from which something was left out. */
export interface Withheld {
  /** The members that are absent. */
  members: string[];
  /** The role that sees them. */
  role: AdminRole;
}

/** What is left of something that has a payload. */
export type Visible<T> = Omit<T, "payload" | "result"> & {
  payload?: unknown;
  result?: unknown;
  withheld?: Withheld;
};

/** What an operator sees of payloads, results and what quotes them. */
export class Payloads {
  constructor(
    private readonly redaction: Redaction,
    /** Who sees them. */
    readonly role: AdminRole,
  ) {}

  /** Where what this path of a payload leads to is not shown; undefined: it is. */
  hiddenOn(path: string): string | undefined {
    return this.redaction.hiddenOn(`payload.${path}`);
  }

  /** Where what this key was read from, at this path of payloads, is not shown; undefined: it is. */
  hiddenIn(path: string, key: string): string | undefined {
    const place = this.hiddenOn(path);
    // Of an object, or a list, all that is in it is its key.
    const whole = /^[[{]/.test(key) && this.redaction.hiddenBelow(`payload.${path}`);
    return place ?? (whole ? `payload.${path}` : undefined);
  }

  /** Where a payload that is to be stored has what is only shown instead of something; undefined: nowhere. */
  placeholderIn(payload: unknown): string | undefined {
    return this.redaction.placeholderIn("payload", payload);
  }

  /** A job or a schedule, with its payload and result as far as he may see them. */
  of<T extends { payload: unknown; result?: unknown }>(
    one: T,
    operator: AdminOperator,
  ): Visible<T> {
    const seen = { ...one } as unknown as Visible<T>;
    const members = ["payload", "result"].filter((member) => member in one);
    if (this.visibleTo(operator)) {
      seen.payload = this.redaction.of("payload", one.payload);
      if (members.includes("result")) seen.result = this.redaction.of("result", one.result);
      return seen;
    }
    delete seen.payload;
    delete seen.result;
    return Object.assign(seen, { withheld: { members, role: this.role } });
  }

  /** An operation on many jobs; what was looked for in payloads as far as he may see them. */
  bulk(one: BulkView, operator: AdminOperator): BulkView {
    const { payload } = one.filter as { payload?: { path: readonly string[] } };
    if (!payload) return one;
    const path = payload.path.join(".");
    const seen = this.visibleTo(operator) && this.hiddenOn(path) === undefined;
    return seen
      ? one
      : { ...one, filter: { ...one.filter, payload: { ...payload, value: REDACTED } } };
  }

  /** Limits of a queue; the keys that are paused, which were read from payloads, as far as he may see them. */
  limits(limits: readonly LimitView[], operator: AdminOperator): LimitView[] {
    const seen = (path: string | null, key: string) =>
      this.visibleTo(operator) && (path === null || this.hiddenIn(path, key) === undefined);
    return limits.map((one) => ({
      ...one,
      paused: one.paused.map((pause) =>
        seen(one.key, pause.key) ? pause : { ...pause, key: REDACTED },
      ),
    }));
  }

  errors(errors: readonly AttemptError[], operator: AdminOperator): AttemptError[] {
    return errors.map((one) => ({ ...one, error: this.#report(one.error, operator) }));
  }

  history(events: readonly HistoryEvent[], operator: AdminOperator): HistoryEvent[] {
    return events.map((one) =>
      one.error === null ? one : { ...one, error: this.#report(one.error, operator) },
    );
  }

  visibleTo(operator: AdminOperator): boolean {
    return reaches(operator.role, this.role);
  }

  /** What a schema says of a payload may quote it. */
  #report(report: ErrorReport, operator: AdminOperator): ErrorReport {
    const { issues, cause, errors, ...rest } = report;
    const shown = this.redaction.some
      ? issues?.map(({ path }) => ({ path, message: REDACTED }))
      : issues;
    return {
      ...rest,
      ...(shown && this.visibleTo(operator) ? { issues: shown } : {}),
      ...(cause ? { cause: this.#report(cause, operator) } : {}),
      ...(errors ? { errors: errors.map((one) => this.#report(one, operator)) } : {}),
    };
  }
}
