import { type Runner, Statement, arrayOf } from "../../pg/statement.js";
import { worthRollUp } from "../upkeep/deltas.js";

/** A lane as an idle process asks about it. */
export interface LookLane {
  queueId: number;
  lane: number;
  at: string;
  backMs: number;
}

export interface Look {
  versions: Map<number, number>;
  names: Map<number, string>;
  /** By queue: ms until the next claimable job of its lanes is due; ≤ 0 is now. */
  due: Map<number, number>;
  /** Queues in which a quarantined job waits. */
  suspects: Set<number>;
  chores: string[];
  /** Ms until a schedule is due; ≤ 0 is now, undefined never. */
  schedule: number | undefined;
  /** The server's clock when it looked, in ms. */
  now: number;
}

// Not min(): where a vacuum has found few schedules the planner would go through all of them.
const soonest = (jobs: string) =>
  `(select s.due_at from ${jobs}.schedule s where s.due_at is not null order by s.due_at limit 1)`;

// One statement over all queues of a process, so that an idle process costs the same with 1 and with 50.
const lookText = (jobs: string, schedules: boolean) => `
select 'queue', q.id::text, q.version || ' ' || q.name from ${jobs}.queue q where q.id = any($1::integer[])
union all
select case when wanted.lane < 20000 then 'due' else 'suspect' end, wanted.queue_id::text, (min(extract(epoch from one.run_at - now())) * 1000)::text
from unnest($2::integer[], $3::smallint[], $4::timestamptz[], $5::float8[]) as wanted (queue_id, lane, at, back)
cross join lateral (
  select j.run_at
  from ${jobs}.job j
  where j.queue_id = wanted.queue_id and j.lane = wanted.lane and j.lane > -1
    and j.run_at >= wanted.at - wanted.back * interval '1 ms'
    and (j.lease_until is null or ($6::boolean and j.lease_until < now()))
  order by j.run_at, j.id
  limit 1
) one
group by 1, 2
union all
select 'chore', c.name, null from ${jobs}.chore c
where c.due_at <= now() and (c.name <> 'rollup' or ${worthRollUp(jobs)})
${schedules ? `union all select 'schedule', null, (extract(epoch from ${soonest(jobs)} - now()) * 1000)::text` : ""}
union all
select 'now', null, (extract(epoch from now()) * 1000)::text`;

const lookAround = new Statement("look", (jobs) => lookText(jobs, false));
const lookAtSchedulesToo = new Statement("look_at_schedules", (jobs) => lookText(jobs, true));

/** What is there to do, for a process with nothing to do. */
export async function look(
  runner: Runner,
  queueIds: readonly number[],
  lanes: readonly LookLane[],
  { takeOver, schedules }: { takeOver: boolean; schedules: boolean },
): Promise<Look> {
  const rows = await runner.run(schedules ? lookAtSchedulesToo : lookAround, [
    arrayOf(queueIds),
    arrayOf(lanes.map((one) => one.queueId)),
    arrayOf(lanes.map((one) => one.lane)),
    `{${lanes.map((one) => `"${one.at}"`).join(",")}}`,
    arrayOf(lanes.map((one) => one.backMs)),
    takeOver,
  ]);
  const seen: Look = {
    versions: new Map(),
    names: new Map(),
    due: new Map(),
    suspects: new Set(),
    chores: [],
    schedule: undefined,
    now: Number.NaN,
  };
  for (const [what, name, value] of rows) {
    if (what === "queue") {
      const space = value!.indexOf(" ");
      seen.versions.set(Number(name), Number(value!.slice(0, space)));
      seen.names.set(Number(name), value!.slice(space + 1));
    } else if (what === "due") seen.due.set(Number(name), Number(value));
    else if (what === "suspect") seen.suspects.add(Number(name));
    else if (what === "schedule") seen.schedule = value === null ? undefined : Number(value);
    else if (what === "now") seen.now = Number(value);
    else seen.chores.push(name!);
  }
  return seen;
}
