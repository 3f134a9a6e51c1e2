import type { PauseOrder, PauseView } from "../../job/pause.js";
import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { instant, ms } from "../instant.js";

// Who pauses raises the version of the queue: claims that were made for the one before yield nothing from then on, and
// each worker reads anew what it may claim.

/** The schema version that has pauses. */
export const PAUSES_SINCE = 4;

/** Of a pause that is none for its kind: it is for the whole queue. */
const WHOLE = "";

/** What a worker shall not claim. */
export interface Pause {
  queueId: number;
  /** Absent: all kinds. */
  kind?: string;
  /** In so many ms it is over; Infinity: when somebody resumes it. */
  forMs: number;
}

/** A queue, and what of it is paused. */
export interface QueueView {
  name: string;
  /** Null: the queue is not paused; some of its kinds may be. */
  paused: PauseView | null;
  /** By kind. */
  kinds: { kind: string; paused: PauseView }[];
}

// A pause that is over is gone with the next one; until then nobody heeds it.
const pauseQueue = new Statement(
  "pause_queue",
  (jobs) => `
with over as (
  delete from ${jobs}.pause p where p.queue_id = $1::integer and p.paused_until <= now() and p.kind <> $2::text
), paused as (
  insert into ${jobs}.pause as p (queue_id, kind, paused_until, paused_by, paused_why)
  values ($1::integer, $2::text, $3::timestamptz, $4::text, $5::text)
  on conflict (queue_id, kind) do update set
    paused_at = case when p.paused_until <= excluded.paused_at then excluded.paused_at else p.paused_at end,
    paused_until = excluded.paused_until, paused_by = excluded.paused_by, paused_why = excluded.paused_why
)
update ${jobs}.queue q set version = q.version + 1 where q.id = $1::integer`,
);

const resumeQueue = new Statement(
  "resume_queue",
  (jobs) => `
with resumed as (
  delete from ${jobs}.pause p where p.queue_id = $1::integer and p.kind = $2::text returning p.kind
)
update ${jobs}.queue q set version = q.version + 1 where q.id = $1::integer and exists (select from resumed)`,
);

const stands = "(p.paused_until is null or p.paused_until > now())";

const listPauses = new Statement(
  "list_pauses",
  (jobs) => `
select p.queue_id::text, p.kind, (extract(epoch from p.paused_until - now()) * 1000)::text
from ${jobs}.pause p where p.queue_id = any($1::integer[]) and ${stands}`,
);

const viewQueues = new Statement(
  "view_queues",
  (jobs) => `
select q.name, p.kind, ${ms("p.paused_at")}, ${ms("p.paused_until")}, p.paused_by, p.paused_why
from ${jobs}.queue q left join ${jobs}.pause p on p.queue_id = q.id and ${stands}
where $1::text is null or q.name = $1::text
order by q.name, p.kind`,
);

const findKind = new Statement(
  "find_kind",
  (jobs) => `
select q.id::text, exists (select from ${jobs}.lane l where l.queue_id = q.id and l.kind = $2::text)
from ${jobs}.queue q where q.name = $1::text`,
);

const kindsOfQueue = new Statement(
  "kinds_of_queue",
  (jobs) => `select distinct l.kind from ${jobs}.lane l where l.queue_id = $1::integer order by 1`,
);

/** Pauses a queue, or one of its kinds; or changes what was said of the pause that stands. */
export async function pause(
  runner: Runner,
  queueId: number,
  kind: string | undefined,
  { until, by, why }: PauseOrder,
): Promise<void> {
  const at = until?.toISOString() ?? null;
  await runner.run(pauseQueue, [queueId, kind ?? WHOLE, at, by, why]);
}

/** Ends such a pause, if there is one. */
export async function resume(
  runner: Runner,
  queueId: number,
  kind: string | undefined,
): Promise<void> {
  await runner.run(resumeQueue, [queueId, kind ?? WHOLE]);
}

/** What stands now of these queues. */
export async function pausesOf(runner: Runner, queueIds: readonly number[]): Promise<Pause[]> {
  const rows = await runner.run(listPauses, [`{${queueIds.join(",")}}`]);
  return rows.map(([queueId, kind, forMs]) => ({
    queueId: Number(queueId),
    ...(kind === WHOLE ? {} : { kind: kind! }),
    forMs: forMs === null ? Number.POSITIVE_INFINITY : Number(forMs),
  }));
}

/** This queue, or all of them, by name. */
export async function queueViews(runner: Runner, name?: string): Promise<QueueView[]> {
  const views = new Map<string, QueueView>();
  for (const row of await runner.run(viewQueues, [name ?? null])) {
    const [queue, kind] = row;
    const view = views.get(queue!) ?? { name: queue!, paused: null, kinds: [] };
    views.set(queue!, view);
    if (kind === WHOLE) view.paused = pauseOf(row);
    else if (kind != null) view.kinds.push({ kind, paused: pauseOf(row) });
  }
  return [...views.values()];
}

function pauseOf([, , at, until, by, why]: Row): PauseView {
  return { at: instant(at)!, until: instant(until), by: by ?? null, why: why ?? null };
}

/** The queue, and whether it has had this kind; undefined when there is none. */
export async function find(
  runner: Runner,
  queue: string,
  kind: string | undefined,
): Promise<{ id: number; hasKind: boolean } | undefined> {
  const [row] = await runner.run(findKind, [queue, kind ?? WHOLE]);
  return row && { id: Number(row[0]), hasKind: row[1] === "t" };
}

export async function kindsOf(runner: Runner, queueId: number): Promise<string[]> {
  return (await runner.run(kindsOfQueue, [queueId])).map(([kind]) => kind!);
}
