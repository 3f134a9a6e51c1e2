import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { instant, ms } from "../instant.js";

// Who gets which events, as the way in reads it.

/** The schema version that has subscriptions. */
export const EVENTS_SINCE = 6;

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
  /** When it was first found that nobody declares it any more: its own service, or since a day nobody at all. */
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
  and ($3::text[] is null or s.kind = any($3::text[]))
order by s.kind`,
);

const VIEW = `s.event, s.kind, s.queue, s.routing_keys::text, s.service, ${ms("s.declared_at")}, ${ms("s.orphaned_at")},
  ${ms("s.retired_at")}`;

const listSubscriptions = new Statement(
  "list_subscriptions",
  (jobs) => `
select ${VIEW}
from ${jobs}.subscription s
where $1::text is null or s.event = $1::text
order by s.event, s.kind`,
);

const removeSubscription = new Statement(
  "remove_subscription",
  (jobs) => `
delete from ${jobs}.subscription s where s.event = $1::text and s.kind = $2::text returning ${VIEW}`,
);

/** Who gets an event with this routing key, null: it has none; `to`: only of these, null: of all. */
export async function subscribers(
  runner: Runner,
  event: string,
  routingKey: string | null,
  to: readonly string[] | null,
): Promise<Subscription[]> {
  const rows = await runner.run(findSubscribers, [event, routingKey, to]);
  return rows.map(([kind, queue, priority]) => ({
    kind: kind!,
    queue: queue!,
    priority: Number(priority),
  }));
}

/** Those of an event, or all. */
export async function list(runner: Runner, event?: string): Promise<SubscriptionView[]> {
  return (await runner.run(listSubscriptions, [event ?? null])).map(viewOf);
}

/** Takes a subscription away; answers what it was, undefined: there is none. */
export async function remove(
  runner: Runner,
  event: string,
  kind: string,
): Promise<SubscriptionView | undefined> {
  const [row] = await runner.run(removeSubscription, [event, kind]);
  return row && viewOf(row);
}

function viewOf(row: Row): SubscriptionView {
  const [event, kind, queue, keys, service, declaredAt, orphanedAt, retiredAt] = row;
  return {
    event: event!,
    kind: kind!,
    queue: queue!,
    routingKeys: keys == null ? null : (JSON.parse(keys) as string[]),
    service: service!,
    declaredAt: instant(declaredAt)!,
    orphanedAt: instant(orphanedAt),
    retiredAt: instant(retiredAt),
  };
}
