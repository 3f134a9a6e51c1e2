import { type Runner, Statement } from "../../pg/statement.js";
import type { NewSubscription } from "./subscriptions.js";

// Code declares its subscriptions when it starts, and says once a minute that it still has them. What nobody says any more
// is an orphan: its own service tells of it and later retires it; of a service that is gone others tell, and leave it.

/** For so long an orphan may come back, and a process keeps its own before it judges others. */
export const PATIENCE_MS = 600_000;

const SILENT = "5 minutes";
/** Of another service, which may be stopped. */
const GONE = "24 hours";

const COLUMNS = "event, kind, queue, priority, routing_keys, service";

/** SQL: the subscriptions that {@link valuesOf} gives, in the one order in which everybody locks them. */
const MINE = `mine as materialized (
  select event, kind, queue, priority, routing_keys, $1::text as service
  from jsonb_to_recordset($2::text::jsonb) as one (event text, kind text, queue text, priority smallint, routing_keys jsonb)
  order by event collate "C", kind collate "C"
)`;

const declareSubscriptions = new Statement(
  "declare_subscriptions",
  (jobs) => `
with ${MINE}, before as materialized (
  select s.event, s.kind, s.service from ${jobs}.subscription s join mine on (mine.event, mine.kind) = (s.event, s.kind)
), declared as (
  insert into ${jobs}.subscription as s (${COLUMNS}) select ${COLUMNS} from mine
  on conflict (event, kind) do update set queue = excluded.queue, priority = excluded.priority,
    routing_keys = excluded.routing_keys, service = excluded.service, declared_at = now(), orphaned_at = null, retired_at = null
)
select event, kind, service from before where service <> $1::text`,
);

// Only a process that has been at it for a while judges others: when all were away, some come back before others.
const keepSubscriptions = new Statement(
  "keep_subscriptions",
  (jobs) => `
with ${MINE}, missing as (
  insert into ${jobs}.subscription (${COLUMNS})
  select ${COLUMNS} from mine where not exists (
    select from ${jobs}.subscription s where (s.event, s.kind) = (mine.event, mine.kind))
  on conflict do nothing
), changing as materialized (
  select s.event, s.kind, mine.kind is not null as kept
  from ${jobs}.subscription s left join mine on (mine.event, mine.kind) = (s.event, s.kind)
  where case
    when mine.kind is not null then s.declared_at < now() - interval '1 minute' or s.orphaned_at is not null
    when s.retired_at is not null then false
    when s.service = $1::text then s.declared_at < now() - interval '${SILENT}'
      and (s.orphaned_at is null or ($3::boolean and s.orphaned_at < now() - interval '${PATIENCE_MS} ms'))
    else $3::boolean and s.declared_at < now() - interval '${GONE}' and s.orphaned_at is null
  end
  order by s.event, s.kind
  for update of s
)
update ${jobs}.subscription s
set declared_at = case when c.kept then now() else s.declared_at end,
  orphaned_at = case when not c.kept then coalesce(s.orphaned_at, now()) end,
  retired_at = case when not c.kept and s.orphaned_at is not null then now() end
from changing c
where (s.event, s.kind) = (c.event, c.kind)
returning s.event, s.kind, s.service, c.kept, s.retired_at is not null`,
);

/** A subscription, and the service that it was, or is, of. */
export interface OfService {
  event: string;
  kind: string;
  service: string;
}

/** A subscription that is not declared any more. */
export interface Orphan extends OfService {
  /** Nothing is delivered to it from now on. */
  retired: boolean;
}

const valuesOf = (service: string, all: readonly NewSubscription[]) => [
  service,
  JSON.stringify(
    all.map(({ event, kind, queue, priority, routingKeys }) => ({
      event,
      kind,
      queue,
      priority,
      routing_keys: routingKeys,
    })),
  ),
];

/** Makes the subscriptions of a worker, or changes those of their events and kinds, all or none; answers whose they were, if another's. */
export async function declare(
  runner: Runner,
  service: string,
  all: readonly NewSubscription[],
): Promise<OfService[]> {
  const rows = await runner.run(declareSubscriptions, valuesOf(service, all));
  return rows.map(([event, kind, before]) => ({ event: event!, kind: kind!, service: before! }));
}

/**
 * Says that `service` still has these, and makes those that somebody has removed.
 * @param judges whether this process has kept them for as long as others are given to come back.
 * @returns what is not declared any more, each once for each step.
 */
export async function keep(
  runner: Runner,
  service: string,
  all: readonly NewSubscription[],
  judges: boolean,
): Promise<Orphan[]> {
  const rows = await runner.run(keepSubscriptions, [...valuesOf(service, all), judges]);
  return rows.flatMap(([event, kind, of, kept, retired]) =>
    kept === "t" ? [] : [{ event: event!, kind: kind!, service: of!, retired: retired === "t" }],
  );
}
