import { isInternal } from "../../pg/sqlstate.js";
import type { Session } from "../../pg/session.js";
import { type Runner, Statement } from "../../pg/statement.js";

const makePartitions = new Statement(
  "ensure_partitions",
  (jobs) => `select ${jobs}.ensure_partitions($1::integer)`,
);

/** Daily partitions of finished jobs and errors, `days` ahead; answers how many were made. */
export async function ensurePartitions(runner: Runner, days = 7): Promise<number> {
  const [row] = await runner.run(makePartitions, [days]);
  return Number(row![0]);
}

// The day by its name and not by the partitions: in a repeatable read those made since are not seen.
const findMissingDay = new Statement(
  "missing_day",
  (jobs) => `
select (now() at time zone 'UTC')::date < (clock_timestamp() at time zone 'UTC')::date
where '${jobs}.done'::regclass is not null
  and to_regclass('${jobs}.done_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')) is null`,
);

/** Whether what finishes in this transaction has no partition to go to; `over`: nobody makes it any more. */
export async function missingDay(runner: Runner): Promise<"today" | "over" | undefined> {
  const [row] = await runner.run(findMissingDay);
  return row && (row[0]!.startsWith("t") ? "over" : "today");
}

/** The table of a day that is over for so long that it goes. */
export interface PastDay {
  parent: string;
  name: string;
  attached: boolean;
  /** An earlier detach was interrupted. */
  pending: boolean;
  /** Whether we may detach it ourselves. */
  owned: boolean;
}

const findPastDays = new Statement(
  "past_days",
  (jobs) => `
select d.parent, c.relname, i.inhrelid is not null, coalesce(i.inhdetachpending, false), pg_has_role(p.relowner, 'USAGE')
from ${jobs}.daily d
join pg_class p on p.relnamespace = '${jobs}'::regnamespace and p.relname = d.parent
join pg_class c on c.relnamespace = p.relnamespace and c.relkind = 'r' and c.relname ~ ('^' || d.parent || '_[0-9]{8}$')
left join pg_inherits i on i.inhrelid = c.oid and i.inhparent = p.oid
where right(c.relname, 8) < to_char((now() - $1::float8 * interval '1 ms') at time zone 'UTC', 'YYYYMMDD')
order by right(c.relname, 8), c.relname`,
);

/** Days that ended at least so long ago, oldest first; those that an interrupted run has left detached, too. */
export async function pastDays(runner: Runner, keepMs: number): Promise<PastDay[]> {
  const rows = await runner.run(findPastDays, [keepMs]);
  return rows.map(([parent, name, attached, pending, owned]) => ({
    parent: parent!,
    name: name!,
    attached: attached === "t",
    pending: pending === "t",
    owned: owned === "t",
  }));
}

const brief = new Statement(null, () => `set lock_timeout = '100ms'`);
const asBefore = new Statement(null, () => `reset lock_timeout`);
const dropPartition = new Statement(
  "drop_partition",
  (jobs) => `select ${jobs}.drop_partition($1::text)`,
);

/**
 * Drops a day. The owner detaches it first, which lets readers and writers of the others go on; anybody else drops it
 * at once, which needs the parent for a moment. Either waits for locks no longer than 0.1 s, and then rejects.
 */
export async function dropDay(session: Session, day: PastDay): Promise<void> {
  // Through a pooler it would run in a transaction, which it refuses.
  if (day.owned && day.attached && !session.pooled) {
    const how = day.pending ? "finalize" : "concurrently";
    const detach = new Statement(
      null,
      (jobs) => `alter table ${jobs}."${day.parent}" detach partition ${jobs}."${day.name}" ${how}`,
    );
    await session.exclusive(async (run) => {
      // For the session: a detach of this kind runs in no transaction.
      await run(brief);
      try {
        await run(detach);
      } finally {
        await run(asBefore);
      }
    });
  }
  await session.run(dropPartition, [day.name]).catch(async (error: unknown) => {
    // PostgreSQL 14 meets a day that somebody else drops just then half gone from its catalogs; a moment later it is gone.
    if (!isInternal(error)) throw error;
    await session.run(dropPartition, [day.name]);
  });
}
