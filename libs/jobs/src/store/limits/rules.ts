import { type Row, type Runner, Statement, arrayOf } from "../../pg/statement.js";
import type { LimitRule } from "../../job/limit.js";
import { lockQueue } from "../queues/lanes.js";

// Rules are changed under the lock that claims of their queue take: none is under way meanwhile, and those that come later
// see them. A rule that was not there before closes the gate until every attempt that is current has its slot.

/** The schema version that has limits. */
export const LIMITS_SINCE = 5;

/** The schema version that knows when code last said them. */
export const KEPT_SINCE = 7;

/** A rule without a bound: it stands for the pauses of its keys alone. */
const UNBOUNDED = 2_147_483_647;

/** Of a rule that is for all kinds of its queue. */
export const WHOLE = "";

/** A rule as it stands. */
export interface StoredRule extends LimitRule {
  queueId: number;
  id: number;
  kind: string;
}

/** What is said of a queue, or of one of its kinds. */
export interface SaidRules {
  kind: string;
  rules: readonly LimitRule[];
  /** How code says it; null: it says nothing any more; undefined: a call says it. */
  said?: { declared: string; service: string } | null;
  by?: string | null;
  why?: string | null;
}

const lockLimits = new Statement(
  "lock_limits",
  (jobs) => `select pg_advisory_xact_lock(${jobs}.lock_limits($1::integer))`,
);

const listRules = new Statement(
  "list_limit_rules",
  (jobs) => `
select r.queue_id, r.id, r.kind, r.key_path, r.max, r.rate, r.rate_ms
from ${jobs}.limit_rule r where r.queue_id = any($1::integer[]) order by r.queue_id, r.id`,
);

const listLimited = new Statement(
  "list_limited_queues",
  (jobs) => `select q.id from ${jobs}.queue q where q.id = any($1::integer[]) and q.limited`,
);

const addRule = new Statement(
  "add_limit_rule",
  (jobs) => `
insert into ${jobs}.limit_rule (queue_id, id, kind, key_path, max, rate, rate_ms, said_by, said_why)
select $1::integer, greatest(coalesce(max(r.id), 0), coalesce((
    select p.limit_id from ${jobs}.parked p where p.queue_id = $1::integer order by p.queue_id desc, p.limit_id desc limit 1
  ), 0)) + 1, $2::text, $3::text, $4::integer, $5::integer, $6::bigint, $7::text, $8::text
from ${jobs}.limit_rule r where r.queue_id = $1::integer`,
);

const changeRule = new Statement(
  "change_limit_rule",
  (jobs) => `
update ${jobs}.limit_rule
set max = $3::integer, rate = $4::integer, rate_ms = $5::bigint, said_at = now(), said_by = $6::text, said_why = $7::text
where queue_id = $1::integer and id = $2::smallint`,
);

// Nothing of it stays but slots, which a new rule counts anew, and what is parked for it, which the next sweep lets go: until
// then its number is not given again.
const removeRule = new Statement(
  "remove_limit_rule",
  (jobs) => `
with gone as (
  delete from ${jobs}.limit_rule r
  where r.queue_id = $1::integer and r.id = $2::smallint and not exists (
    select from ${jobs}.key_pause p
    where p.queue_id = r.queue_id and p.limit_id = r.id and (p.paused_until is null or p.paused_until > now()))
  returning r.id
), emptied as (
  delete from ${jobs}.bucket where queue_id = $1::integer and limit_id = $2::smallint
), resumed as (
  delete from ${jobs}.key_pause p using gone g where p.queue_id = $1::integer and p.limit_id = g.id
)
select g.id from gone g`,
);

// Who paused one of its keys does not expect it to start because the limit is gone.
const unbound = new Statement(
  "unbound_limit_rule",
  (jobs) => `
update ${jobs}.limit_rule set max = ${UNBOUNDED}, rate = null, rate_ms = null
where queue_id = $1::integer and id = $2::smallint`,
);

const listUnbound = new Statement(
  "list_unbound_rules",
  (jobs) => `
select r.id from ${jobs}.limit_rule r where r.queue_id = $1::integer and r.max = ${UNBOUNDED} and r.rate is null`,
);

const listSaid = new Statement(
  "list_limits_said",
  (jobs) =>
    `select s.queue_id, s.kind, s.declared, s.service from ${jobs}.limit_said s where s.queue_id = any($1::integer[])`,
);
const say = new Statement(
  "say_limits",
  (jobs) => `
insert into ${jobs}.limit_said (queue_id, kind, declared, service) values ($1::integer, $2::text, $3::text, $4::text)
on conflict (queue_id, kind) do update set declared = excluded.declared, service = excluded.service`,
);
// Workers say it once a minute.
const keepSaid = new Statement(
  "keep_limits_said",
  (jobs) => `
update ${jobs}.limit_said s set said_at = now()
from jsonb_to_recordset($1::jsonb) m ("queueId" integer, kind text, declared text)
where s.queue_id = m."queueId" and s.kind = m.kind and s.declared = m.declared`,
);
const listForgotten = new Statement(
  "list_limits_forgotten",
  (jobs) => `
select s.queue_id, s.kind, s.declared, s.service from ${jobs}.limit_said s
where s.queue_id = any($1::integer[]) and s.said_at < now() - interval '150 seconds'`,
);
const unsay = new Statement(
  "unsay_limits",
  (jobs) => `delete from ${jobs}.limit_said where queue_id = $1::integer and kind = $2::text`,
);

const closeGate = new Statement(
  "close_limit_gate",
  (jobs) => `
with chores as (
  insert into ${jobs}.chore (name, every) values ('limits', '1 second') on conflict (name) do nothing
)
insert into ${jobs}.limit_gate as g (queue_id, opens_at)
select $1::integer, case when q.limited then clock_timestamp() end
from ${jobs}.queue q where q.id = $1::integer
on conflict (queue_id) do update
set opened = false, opens_at = case when g.opened then excluded.opens_at else g.opens_at end`,
);

// How many may start at once stays what it was, if the new rate allows as many: one that was full, and is changed to and fro,
// gives nothing out twice. What was to be waited for takes as long as the new rate says.
const changeRates = new Statement(
  "change_rates",
  (jobs) => `
with now as (
  select floor(extract(epoch from clock_timestamp()) * 1000000)::bigint as us
), before as (
  select one.burst, ceil(($4::bigint * 1000.0 + least($4::bigint * 100, 250000)) / ($3::integer + 1 - one.burst)) as cost
  from (select greatest(1, $3::integer / 10) as burst) one
)
update ${jobs}.bucket b
set full_at = now.us + ceil(r.cost * (
    r.burst - least(r.burst, greatest(0, before.burst - greatest(0, b.full_at - now.us) / before.cost))))::bigint,
  wake_at = case when b.wake_at is not null then clock_timestamp() end
from ${jobs}.limit_rules($1::integer) r, now, before
where r.id = $2::smallint and b.queue_id = $1::integer and b.limit_id = $2::smallint`,
);
const dropRates = new Statement(
  "drop_rates",
  (jobs) => `delete from ${jobs}.bucket where queue_id = $1::integer and limit_id = $2::smallint`,
);

const raiseVersion = new Statement(
  "limit_queue",
  (jobs) => `
update ${jobs}.queue
set version = version + 1, limited = exists (select from ${jobs}.limit_rule r where r.queue_id = $1::integer)
where id = $1::integer`,
);

/** The rules of these queues. */
export async function rulesOf(runner: Runner, queueIds: readonly number[]): Promise<StoredRule[]> {
  const rows = await runner.run(listRules, [arrayOf(queueIds)]);
  const number = (value: string | null | undefined) => (value == null ? null : Number(value));
  return rows.map(([queueId, id, kind, keyPath, max, rate, rateMs]) => ({
    queueId: Number(queueId),
    id: Number(id),
    kind: kind!,
    keyPath: keyPath!,
    max: number(max),
    rate: number(rate),
    rateMs: number(rateMs),
  }));
}

/** What code says of a queue, or of one of its kinds. */
export interface Said {
  queueId: number;
  kind: string;
  declared: string;
}

/** What code last said of these queues and their kinds. */
export async function saidOf(
  runner: Runner,
  queueIds: readonly number[],
): Promise<(Said & { service: string })[]> {
  return (await runner.run(listSaid, [arrayOf(queueIds)])).map(readSaid);
}

/** Of it, what no worker that lives says any more. */
export async function forgottenOf(
  runner: Runner,
  queueIds: readonly number[],
): Promise<(Said & { service: string })[]> {
  return (await runner.run(listForgotten, [arrayOf(queueIds)])).map(readSaid);
}

/** It is still said. */
export async function keep(runner: Runner, all: readonly Said[]): Promise<void> {
  await runner.run(keepSaid, [
    JSON.stringify(all.map(({ queueId, kind, declared }) => ({ queueId, kind, declared }))),
  ]);
}

const readSaid = ([queueId, kind, declared, service]: Row) => ({
  queueId: Number(queueId),
  kind: kind!,
  declared: declared!,
  service: service!,
});

/** Of these queues, those that are claimed from within limits. */
export async function limitedOf(runner: Runner, queueIds: readonly number[]): Promise<Set<number>> {
  const rows = await runner.run(listLimited, [arrayOf(queueIds)]);
  return new Set(rows.map(([id]) => Number(id)));
}

/** Says what holds for a queue or kind from now on, in the transaction of `runner`; answers whether anything has changed. */
export async function setRules(
  runner: Runner,
  queueId: number,
  { kind, rules, said, by = null, why = null }: SaidRules,
): Promise<boolean> {
  // First, so that nobody is kept from claiming while it is waited for.
  await runner.run(lockQueue, [queueId]);
  await runner.run(lockLimits, [queueId]);
  const before = (await rulesOf(runner, [queueId])).filter((one) => one.kind === kind);
  const order = [by, why];
  if (said === null) await runner.run(unsay, [queueId, kind]);
  else if (said) await runner.run(say, [queueId, kind, said.declared, said.service]);
  let changed = false;
  for (const known of before)
    if (!rules.some(({ keyPath }) => keyPath === known.keyPath)) {
      const [gone] = await runner.run(removeRule, [queueId, known.id]);
      if (!gone) await runner.run(unbound, [queueId, known.id]);
      changed = true;
    }
  let added = false;
  for (const { keyPath, max, rate, rateMs } of rules) {
    const known = before.find((one) => one.keyPath === keyPath);
    const numbers = [max, rate, rateMs];
    if (!known) {
      await runner.run(addRule, [queueId, kind, keyPath, ...numbers, ...order]);
      added = true;
    } else {
      await runner.run(changeRule, [queueId, known.id, ...numbers, ...order]);
      const otherRate = known.rate !== rate || known.rateMs !== rateMs;
      if (otherRate && rate === null) await runner.run(dropRates, [queueId, known.id]);
      else if (otherRate && known.rate !== null)
        await runner.run(changeRates, [queueId, known.id, known.rate, known.rateMs]);
      changed ||= otherRate || known.max !== max;
    }
  }
  if (added) await runner.run(closeGate, [queueId]);
  if (added || changed) await runner.run(raiseVersion, [queueId]);
  return added || changed;
}

/** Takes away the rules that stood for pauses which are over; answers whether there were any. */
export async function dropUnbound(runner: Runner, queueId: number): Promise<boolean> {
  if ((await runner.run(listUnbound, [queueId])).length === 0) return false;
  await runner.run(lockQueue, [queueId]);
  await runner.run(lockLimits, [queueId]);
  let dropped = false;
  for (const [id] of await runner.run(listUnbound, [queueId]))
    dropped = (await runner.run(removeRule, [queueId, id])).length > 0 || dropped;
  if (dropped) await runner.run(raiseVersion, [queueId]);
  return dropped;
}

/** The number that stands for no bound, as callers know it. */
export const boundOf = (max: string | null | undefined): number | null =>
  max == null || Number(max) === UNBOUNDED ? null : Number(max);

/** The same, said by another service from now on; what calls have changed stays. */
export async function own(
  runner: Runner,
  queueId: number,
  { kind, declared, service }: { kind: string; declared: string; service: string },
): Promise<void> {
  await runner.run(say, [queueId, kind, declared, service]);
}
