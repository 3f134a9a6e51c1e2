// A process keeps the numbers of queues and lanes. The tables under it may be exchanged meanwhile: made anew, or
// restored from a backup that has given the same numbers to others. So each insert holds only if they stand as they
// are known. It is one check a statement, not one a row.

/** A lane with everything that its number stands for. */
export interface NamedLane {
  queue: string;
  lane: number;
  kind: string;
  priority: number;
  /** It was looked up by a snapshot younger than the statement's: not to be checked. */
  looked?: boolean;
}

/** The database has other lanes, or another queue, under the numbers that we know. Nothing was written. */
export class StaleLanesError extends Error {
  override readonly name = "StaleLanesError";
  constructor() {
    super("the queue or lane of a job is another one by now");
  }
}

// A record set and not arrays: of the rows of arrays that it knows, the planner expects fewer than of those that it does
// not know, and would plan each insert anew for that, at half of its cost.
/** A common table expression `stands (ok)`; `queueId` is a parameter, those of {@link standingValues} begin at `first`. */
export const standing = (jobs: string, queueId: string, first: number) => `stands as materialized (
  select ($${first}::text is null or (
    (select q.name from ${jobs}.queue q where q.id = ${queueId}) = $${first}::text
    and (
      select bool_and((
        select l.kind = known.kind and l.priority = known.priority
        from ${jobs}.lane l where l.queue_id = ${queueId} and l.id = known.lane) is true)
      from jsonb_to_recordset($${first + 1}::text::jsonb) known (lane smallint, kind text, priority smallint)
    )
  )) is true as ok
)`;

/** Of the condition that {@link standing} makes. */
export const STANDS = "(select ok from stands)";

/** The same for jobs of one lane, all of it parameters: `stands` has a row if it does. Without a queue's name it does. */
export const standingAlone = (
  jobs: string,
  {
    queueId,
    lane,
    queue,
    kind,
    priority,
  }: Record<"queueId" | Exclude<keyof NamedLane, "looked">, string>,
) => `stands as materialized (
  select where ${queue} is null
  union all
  select from ${jobs}.queue q join ${jobs}.lane l on l.queue_id = q.id
  where q.id = ${queueId} and q.name = ${queue} and l.id = ${lane} and l.kind = ${kind} and l.priority = ${priority}
)`;

/** The distinct lanes of a batch of one queue. @throws StaleLanesError when two queues are known by one number. */
export function standingValues(batch: readonly NamedLane[]): [string | null, string] {
  const [first] = batch as [NamedLane, ...NamedLane[]];
  const lanes = [first];
  let last = first;
  let looked = true;
  for (const one of batch) {
    if (one.queue !== first.queue) throw new StaleLanesError();
    looked &&= one.looked === true;
    if (isSame(one, last)) continue;
    last = lanes.find((lane) => isSame(one, lane)) ?? one;
    if (last === one) lanes.push(one);
  }
  return [
    looked ? null : first.queue,
    JSON.stringify(lanes.map(({ lane, kind, priority }) => ({ lane, kind, priority }))),
  ];
}

const isSame = (a: NamedLane, b: NamedLane): boolean =>
  a.lane === b.lane && a.kind === b.kind && a.priority === b.priority;
