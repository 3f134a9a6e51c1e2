import { type Runner, Statement } from "../../pg/statement.js";
import { iso } from "../reads/columns.js";

// What operators did. A row is there before the deed, and is told how it ended: who looks finds also what was begun and
// never heard of again.

/** The schema version that has it. */
export const AUDIT_SINCE = 8;

/** What an operator is about to do. */
export interface Deed {
  /** Who. */
  operator: string;
  /** As what: viewer, operator, admin. */
  role: string;
  /** `job.requeue`, `queue.pause` … */
  action: string;
  /** The job, queue, schedule that it is done to. */
  target: string;
  why: string | null;
  /** What else belongs to it; no payloads. */
  details: object;
}

/** What an operator did. */
export interface AuditEntry extends Deed {
  id: string;
  at: string;
  /** How it ended; null: it was begun, and nobody has said. */
  outcome: string | null;
  endedAt: string | null;
}

/** Which entries; all that is said must hold. */
export interface AuditFilter {
  operator: string | null;
  action: string | null;
  target: string | null;
}

const begin = new Statement(
  "begin_audit",
  (jobs) => `
insert into ${jobs}.audit (operator, role, action, target, why, details)
select $1::text, $2::text, $3::text, $4::text, $5::text, $6::text::jsonb
returning id`,
);

const end = new Statement(
  "end_audit",
  (jobs) => `
update ${jobs}.audit set outcome = $2::text, ended_at = now() where id = $1::bigint and outcome is null returning id`,
);

// In the order of its key, so that it stops with the page; whatever fits or not, it looks at no more than so many rows.
const LOOKED_AT_MOST = 20_000;
const listEntries = new Statement(
  "list_audit",
  (jobs) => `
select id, ${iso("at")}, operator, role, action, target, why, details, outcome, ${iso("ended_at")}, bound, fits
from (
  select looked.*, looked.place = ${LOOKED_AT_MOST} as bound,
    ($2::text is null or looked.operator = $2::text) and ($3::text is null or looked.action = $3::text)
      and ($4::text is null or looked.target = $4::text) as fits
  from (
    select a.*, row_number() over (order by a.id desc) as place from ${jobs}.audit a
    where a.id < $1::bigint order by a.id desc limit ${LOOKED_AT_MOST}
  ) looked
) judged
where fits or bound
order by id desc limit $5::integer`,
);

/** Writes down what is about to be done. */
export async function beginDeed(runner: Runner, deed: Deed): Promise<string> {
  const { operator, role, action, target, why, details } = deed;
  const values = [operator, role, action, target, why, JSON.stringify(details)];
  const [row] = await runner.run(begin, values);
  return row![0]!;
}

/** And how it ended. */
export async function endDeed(runner: Runner, id: string, outcome: string): Promise<void> {
  await runner.run(end, [id, outcome]);
}

/** A page of them, newest first; `before`: where the next one begins. */
export async function listDeeds(
  runner: Runner,
  filter: AuditFilter,
  limit: number,
  before: string | null,
): Promise<{ items: AuditEntry[]; before: string | null }> {
  const rows = await runner.run(listEntries, [
    before ?? "9223372036854775807",
    filter.operator,
    filter.action,
    filter.target,
    limit + 1,
  ]);
  const here = rows.slice(0, limit);
  const last = here.at(-1);
  const more = rows.length > limit || last?.[10] === "t";
  return {
    items: here
      .filter((row) => row[11] === "t")
      .map((row) => ({
        id: row[0]!,
        at: row[1]!,
        operator: row[2]!,
        role: row[3]!,
        action: row[4]!,
        target: row[5]!,
        why: row[6] ?? null,
        details: JSON.parse(row[7]!) as object,
        outcome: row[8] ?? null,
        endedAt: row[9] ?? null,
      })),
    before: more ? last![0]! : null,
  };
}
