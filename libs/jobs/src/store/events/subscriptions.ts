import { type Runner, Statement } from "../../pg/statement.js";
import { instant, ms } from "../instant.js";

// Code declares its subscriptions when it starts, and says once a minute that it still has them. What nobody says any more
// is an orphan: it is told of, and later retired, by its own service only.

/** The schema version that has subscriptions. */
export const EVENTS_SINCE = 6;

const SILENT = "5 minutes";
const PATIENCE = "10 minutes";

/** Where a delivery goes. */
export interface Subscription {
  kind: string;
  queue: string;
  priority: number;
}

/** A subscription as code declares it. */
export interface NewSubscription extends Subscription {
  event: string;
  /** Null: whatever the routing key. */
  routingKeys: readonly string[] | null;
  service: string;
}

/** A subscription as it stands. */
export interface SubscriptionView {
  event: string;
  /** The kind of its deliveries. */
  kind: string;
  queue: string;
  /** Null: whatever the routing key. */
  routingKeys: string[] | null;
  service: string;
  declaredAt: Date;
  /** When it was first found that nobody declares it any more. */
  orphanedAt: Date | null;
  /** Since when nothing is delivered to it. */
  retiredAt: Date | null;
}

const findSubscribers = new Statement(
  "find_subscribers",
  (jobs) => `
select s.kind, s.queue, s.priority
from ${jobs}.subscription s
where s.event = $1::text and s.retired_at is null and (s.routing_keys is null or s.routing_keys ? $2::text)
order by s.kind`,
);

const declareSubscription = new Statement(
  "declare_subscription",
  (jobs) => `
with before as materialized (
  select s.service from ${jobs}.subscription s where s.event = $1::text and s.kind = $2::text
), declared as (
  insert into ${jobs}.subscription as s (event, kind, queue, priority, routing_keys, service)
  values ($1::text, $2::text, $3::text, $4::smallint, $5::text::jsonb, $6::text)
  on conflict (event, kind) do update set queue = excluded.queue, priority = excluded.priority,
    routing_keys = excluded.routing_keys, service = excluded.service, declared_at = now(), orphaned_at = null, retired_at = null
)
select service from before`,
);

const keepSubscriptions = new Statement(
  "keep_subscriptions",
  (jobs) => `
with kept as (
  update ${jobs}.subscription s set declared_at = now(), orphaned_at = null, retired_at = null
  where (s.event, s.kind) in (select * from unnest($2::text[], $3::text[]))
    and (s.declared_at < now() - interval '1 minute' or s.orphaned_at is not null)
)
update ${jobs}.subscription s
set orphaned_at = coalesce(s.orphaned_at, now()), retired_at = case when s.orphaned_at is not null then now() end
where s.service = $1::text and (s.event, s.kind) not in (select * from unnest($2::text[], $3::text[])) and s.retired_at is null
  and s.declared_at < now() - interval '${SILENT}'
  and (s.orphaned_at is null or s.orphaned_at < now() - interval '${PATIENCE}')
returning s.event, s.kind, s.retired_at is not null`,
);

const listSubscriptions = new Statement(
  "list_subscriptions",
  (jobs) => `
select s.event, s.kind, s.queue, s.routing_keys::text, s.service, ${ms("s.declared_at")}, ${ms("s.orphaned_at")}, ${ms("s.retired_at")}
from ${jobs}.subscription s
where $1::text is null or s.event = $1::text
order by s.event, s.kind`,
);

/** Who gets an event with this routing key; null: it has none. */
export async function subscribers(
  runner: Runner,
  event: string,
  routingKey: string | null,
): Promise<Subscription[]> {
  const rows = await runner.run(findSubscribers, [event, routingKey]);
  return rows.map(([kind, queue, priority]) => ({
    kind: kind!,
    queue: queue!,
    priority: Number(priority),
  }));
}

/** Makes a subscription, or changes the one of this event and kind; answers whose it was, undefined: it is new. */
export async function declare(runner: Runner, one: NewSubscription): Promise<string | undefined> {
  const { event, kind, queue, priority, routingKeys, service } = one;
  const keys = routingKeys === null ? null : JSON.stringify(routingKeys);
  const [row] = await runner.run(declareSubscription, [
    event,
    kind,
    queue,
    priority,
    keys,
    service,
  ]);
  return row?.[0] ?? undefined;
}

/** Says that `service` still has these; answers what it has not any more, each once. */
export async function keep(
  runner: Runner,
  service: string,
  all: readonly { event: string; kind: string }[],
): Promise<{ event: string; kind: string; retired: boolean }[]> {
  const rows = await runner.run(keepSubscriptions, [
    service,
    all.map(({ event }) => event),
    all.map(({ kind }) => kind),
  ]);
  return rows.map(([event, kind, retired]) => ({
    event: event!,
    kind: kind!,
    retired: retired === "t",
  }));
}

/** Those of an event, or all. */
export async function list(runner: Runner, event?: string): Promise<SubscriptionView[]> {
  const rows = await runner.run(listSubscriptions, [event ?? null]);
  return rows.map(([name, kind, queue, keys, service, declaredAt, orphanedAt, retiredAt]) => ({
    event: name!,
    kind: kind!,
    queue: queue!,
    routingKeys: keys == null ? null : (JSON.parse(keys) as string[]),
    service: service!,
    declaredAt: instant(declaredAt)!,
    orphanedAt: instant(orphanedAt),
    retiredAt: instant(retiredAt),
  }));
}
