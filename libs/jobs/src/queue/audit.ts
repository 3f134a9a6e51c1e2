import { OptionsCheck, readable } from "../job/options-check.js";
import {
  AUDIT_SINCE,
  type AuditEntry,
  type Deed,
  beginDeed,
  endDeed,
  listDeeds,
} from "../store/operators/audit.js";
import type { Store } from "../store/store.js";
import { callerError } from "./failure.js";

// What operators did: for the admin API, which writes it, and for those who look.

/** Which deeds; all that is said must hold. */
export interface AuditQuery {
  operator?: string;
  /** `job.requeue`, `queue.pause` … */
  action?: string;
  /** The job, queue or schedule. */
  target?: string;
}

/** A page of them, newest first. */
export interface AuditPage {
  items: AuditEntry[];
  /** `after` of the next page; null when there is nothing older. */
  next: string | null;
}

const FILTERS = ["operator", "action", "target"] as const;

/** Who did what, when, and why. */
export class JobAudit {
  /** @internal Made by `JobsModule.forRoot()`. */
  constructor(private readonly store: Store) {}

  /** Whether deeds are written down: the schema has room for them. */
  async kept(): Promise<boolean> {
    try {
      return await this.store.offers(AUDIT_SINCE);
    } catch (error) {
      throw callerError(error, this.store.schema, "audit");
    }
  }

  /**
   * Writes down what is about to be done; answers its id. Of details of more than 8,192 characters of JSON their beginning,
   * as `cut`. @throws SchemaNotReadyError, DatabaseUnavailableError
   */
  async begin(deed: Deed): Promise<string> {
    const written = { ...deed, details: inShort(deed.details) };
    return await this.#checked(() => beginDeed(this.store, written));
  }

  /** And how it ended. */
  async end(id: string, outcome: string): Promise<void> {
    await this.#checked(() => endDeed(this.store, id, outcome));
  }

  /** What was done. A page looks at no more than 20,000 entries. @throws OptionsError, SchemaNotReadyError */
  async list(
    query: AuditQuery = {},
    page: { limit?: number; after?: string } = {},
  ): Promise<AuditPage> {
    const { filter, limit, after } = readable("audit", () => {
      const check = new OptionsCheck("audit");
      const asked = check.absentOr("query", query, FILTERS);
      const [operator, action, target] = FILTERS.map((name) => text(check, name, asked[name]));
      const paged = check.absentOr("page", page, ["limit", "after"]);
      const most = check.integer("page.limit", paged.limit, 1, 200) ?? 50;
      const from = paged.after ?? null;
      if (from !== null && (typeof from !== "string" || !/^[1-9]\d{0,17}$/.test(from)))
        check.expected("page.after", "the next of the page before", from);
      check.done();
      return {
        filter: { operator: operator!, action: action!, target: target! },
        limit: most,
        after: from as string | null,
      };
    });
    const { items, before } = await this.#checked(() =>
      listDeeds(this.store.aside, filter, limit, after),
    );
    return { items, next: before };
  }

  async #checked<T>(work: () => Promise<T>): Promise<T> {
    try {
      await this.store.needs(AUDIT_SINCE, "the audit of operators");
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, "audit");
    }
  }
}

const LONGEST_DETAILS = 8_192;
/** As text in JSON it is up to twice as long. */
const BEGINNING = LONGEST_DETAILS / 2;

function inShort(details: object): object {
  const json = JSON.stringify(details);
  if (json.length <= LONGEST_DETAILS) return details;
  return { cut: `${json.slice(0, BEGINNING).toWellFormed()}…`, characters: json.length };
}

function text(check: OptionsCheck, name: string, value: unknown): string | null {
  if (value === undefined) return null;
  if (typeof value === "string" && value.length <= 1_000 && /^[^\0\p{Cs}]+$/u.test(value))
    return value;
  check.expected(`query.${name}`, "1 to 1,000 characters without NUL", value);
  return null;
}
