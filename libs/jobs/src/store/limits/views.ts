import type { LimitView } from "../../job/limit.js";
import { type Runner, Statement } from "../../pg/statement.js";
import { instant, ms } from "../instant.js";
import { WHOLE, boundOf } from "./rules.js";

// Counted, not kept: few jobs run at once, and of those that are parked no more than 10,001 are looked at.
const viewRules = new Statement(
  "view_limits",
  (jobs) => `
select r.kind, r.key_path, r.max, r.rate, r.rate_ms, ${ms("r.said_at")}, r.said_by, r.said_why,
  (select count(*) from ${jobs}.slot s where s.queue_id = r.queue_id and s.limit_id = r.id),
  (select count(*) from (
    select p.job_id from ${jobs}.parked p where p.queue_id = r.queue_id and p.limit_id = r.id limit 10001) seen
   cross join lateral (
    select j.lane from ${jobs}.job j where j.id = seen.job_id and j.queue_id = r.queue_id offset 0) j
   where j.lane between 10000 and 19999),
  (select json_agg(json_build_array(p.key, ${ms("p.paused_at")}, ${ms("p.paused_until")}, p.paused_by, p.paused_why) order by p.key)
   from (
    select k.key, k.paused_at, k.paused_until, k.paused_by, k.paused_why from ${jobs}.key_pause k
    where k.queue_id = r.queue_id and k.limit_id = r.id and (k.paused_until is null or k.paused_until > now())
    order by k.key limit 1000) p)
from ${jobs}.limit_rule r where r.queue_id = $1::integer
order by r.kind, r.key_path`,
);

/** The limits of a queue and its kinds, with what they count now. */
export async function limitViews(runner: Runner, queueId: number): Promise<LimitView[]> {
  const rows = await runner.run(viewRules, [queueId]);
  return rows.map(([kind, keyPath, max, rate, rateMs, at, by, why, running, waiting, paused]) => ({
    kind: kind === WHOLE ? null : kind!,
    key: keyPath === "" ? null : keyPath!,
    limit: boundOf(max),
    rate: rate == null ? null : { max: Number(rate), perMs: Number(rateMs) },
    running: Number(running),
    waiting: Number(waiting),
    at: instant(at)!,
    by: by ?? null,
    why: why ?? null,
    paused: paused == null ? [] : (JSON.parse(paused) as PausedKey[]).map(pausedKey),
  }));
}

type PausedKey = [
  key: string,
  at: string,
  until: string | null,
  by: string | null,
  why: string | null,
];

const pausedKey = ([key, at, until, by, why]: PausedKey) => ({
  key,
  at: instant(at)!,
  until: instant(until),
  by,
  why,
});
