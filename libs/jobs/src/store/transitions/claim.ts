import { type Row, type Runner, Statement, arrayOf } from "../../pg/statement.js";
import { type Writes, modeIs } from "./noted.js";

/** Where the scan of a lane starts. A hint only: what lies before is found by the next search. */
export interface LaneRequest {
  lane: number;
  /** As PostgreSQL wrote it; '-infinity' = from the start. */
  at: string;
  id: string;
  /** Looks back so many ms behind `at`. */
  backMs: number;
  /** Looks no further than so many ms behind `at`; absent: up to now. */
  untilMs?: number;
  /** At most so many jobs of this lane. */
  room: number;
}

export interface ClaimRequest {
  queueId: number;
  /** The queue's version that the lanes were listed for; another one yields nothing. */
  version: number;
  lanes: readonly LaneRequest[];
  room: number;
  leaseMs: number;
  worker: number;
  /** Until then, by the server's clock, it may take over expired leases of others; {@link NEVER} = not at all. */
  takeOverUntil: string;
}

/** PostgreSQL's oldest time. */
export const NEVER = "-infinity";

/** A job in the hands of a worker: this attempt of it is ours until the lease runs out. */
export interface Claim {
  id: string;
  queueId: number;
  lane: number;
  /** Of the row; the lane should be of the same one. */
  kind: string;
  attempt: number;
  worker: number;
  failures: number;
  crashes: number;
  attempts: number | null;
  timeoutMs: number | null;
  /** As PostgreSQL wrote it: microseconds exact, for the cursor. */
  runAt: string;
  /** JSON text. */
  payload: string;
  /** JSON text of what goes with the job beside its payload; null: nothing. */
  headers: string | null;
  /** Taken over from a worker whose lease ran out. */
  rescued: boolean;
  /** Its cancel was requested before: it is not to be run. */
  cancelled: boolean;
}

// The right to take over ends with the server's clock: a claim can lie in a network that is gone, and be the first
// thing that arrives when it is back, before any renewal of those whose leases ran out meanwhile.
// The sub-select in ANY(ARRAY(…)) runs once, whatever the planner thinks; a join here was planned for an
// empty table and stayed so. MATERIALIZED keeps LIMIT … SKIP LOCKED from being run again.
const claimText = (jobs: string, history: boolean) => `
-- queued -> running
with picked as materialized (
  select one.id, one.expired
  from ${jobs}.queue q
  cross join unnest($3::smallint[], $4::timestamptz[], $5::bigint[], $6::float8[], $7::integer[], $12::float8[])
    as wanted (lane, at, id, back, room, until)
  cross join lateral (
    select j.id, j.lease_until is not null as expired
    from ${jobs}.job j
    where j.queue_id = $1::integer and j.lane = wanted.lane and j.lane > -1
      and (j.run_at, j.id) > (wanted.at - wanted.back * interval '1 ms', case when wanted.back > 0 then 0 else wanted.id end)
      and j.run_at <= least(now(), wanted.at - wanted.until * interval '1 ms')
      and (j.lease_until is null or (j.lease_until < now() and now() < $11::timestamptz))
    order by j.run_at, j.id
    limit wanted.room
    for update skip locked
  ) one
  where q.id = $1::integer and q.version = $2::integer
  limit $8::integer
)${history ? told(jobs) : ""}
update ${jobs}.job j
set lease_until = to_timestamp(extract(epoch from now())::float8 + $9::float8 / 1000),
  claimed_at = now(),
  worker = $10::integer,
  attempt = j.attempt + 1,
  crashes = j.crashes + (j.lease_until is not null)::integer
where j.queue_id = $1::integer and j.id = any(array(select id from picked))
returning j.id, j.lane, j.attempt, j.failures, j.crashes, j.attempts, j.timeout_ms, j.run_at, j.payload, j.headers, j.kind,
  case when j.cancel_at is null then j.id = any(array(select id from picked where expired)) end`;

/**
 * A take-over leaves no trace on the row; of a start, only the last one stays there. Reads the rows once more, as
 * they were: what nearly every claim has no use for is not carried along.
 */
const told = (jobs: string) => `, told as (
  insert into ${jobs}.event (job_id, started_at, attempt, worker, queue_id, generation, event, details)
  select j.id, case when told.rescue then j.claimed_at end, j.attempt + 1, $10::integer, j.queue_id, j.generation,
    case when told.rescue then 'rescued' else 'started' end,
    case when told.rescue then jsonb_build_object('worker', j.worker) end
  from ${jobs}.job j cross join (values (true), (false)) told (rescue)
  where j.queue_id = $1::integer and j.id = any(array(select id from picked where expired or ${modeIs(jobs, ["full"])}))
    and case when told.rescue then j.lease_until is not null and ${modeIs(jobs, ["exceptions", "full"])}
      else ${modeIs(jobs, ["full"])} end
)`;

const claimJobs = new Statement("claim", (jobs) => claimText(jobs, false));
const claimAndTell = new Statement("claim_noted", (jobs) => claimText(jobs, true));

/** Takes due jobs, highest lane first; in the order of the lanes, then of time, then of id. */
export async function claim(
  runner: Runner,
  request: ClaimRequest,
  { history = false, full = false }: Writes = {},
): Promise<Claim[]> {
  const { queueId, version, lanes, room, leaseMs, worker, takeOverUntil } = request;
  const tells = history && (full || takeOverUntil !== NEVER);
  const rows = await runner.run(tells ? claimAndTell : claimJobs, [
    queueId,
    version,
    ...laneValues(lanes),
    room,
    leaseMs,
    worker,
    takeOverUntil,
    untilValue(lanes),
  ]);
  const claims = rows.map((row) => readClaim(row, queueId, worker));
  return inOrder(claims, lanes);
}

/** Numbers, places, ids, looks back and rooms of the lanes: five parameters. */
export const laneValues = (lanes: readonly LaneRequest[]): string[] => [
  arrayOf(lanes.map((one) => one.lane)),
  `{${lanes.map((one) => `"${one.at}"`).join(",")}}`,
  arrayOf(lanes.map((one) => one.id)),
  arrayOf(lanes.map((one) => one.backMs)),
  arrayOf(lanes.map((one) => one.room)),
];

/** The ends of the slices. */
export const untilValue = (lanes: readonly LaneRequest[]): string =>
  `{${lanes.map((one) => one.untilMs ?? "NULL").join(",")}}`;

/** From the columns that a claim returns. */
export const readClaim = (row: Row, queueId: number, worker: number): Claim =>
  new ClaimedRow(row, queueId, worker);

// What is held while a job runs is made by classes, here and in the worker. Of an object literal V8 counts how many outlive
// a young collection, in a worker all of the first ones, and makes the later ones where only a full one looks (ADR 12).
class ClaimedRow implements Claim {
  id: string;
  queueId: number;
  lane: number;
  kind: string;
  attempt: number;
  worker: number;
  failures: number;
  crashes: number;
  attempts: number | null;
  timeoutMs: number | null;
  runAt: string;
  payload: string;
  headers: string | null;
  rescued: boolean;
  cancelled: boolean;

  constructor(row: Row, queueId: number, worker: number) {
    this.id = row[0]!;
    this.queueId = queueId;
    this.lane = Number(row[1]);
    this.kind = row[10]!;
    this.attempt = Number(row[2]);
    this.worker = worker;
    this.failures = Number(row[3]);
    this.crashes = Number(row[4]);
    this.attempts = row[5] === null ? null : Number(row[5]);
    this.timeoutMs = row[6] === null ? null : Number(row[6]);
    this.runAt = row[7]!;
    this.payload = row[8]!;
    this.headers = row[9] ?? null;
    this.rescued = row[11] === "t";
    this.cancelled = row[11] === null;
  }
}

/** RETURNING has no order. Ids ascend with time within a run_at; text of equal zone compares as time does. */
export function inOrder(claims: Claim[], lanes: readonly LaneRequest[]): Claim[] {
  if (claims.length < 2) return claims;
  const place = new Map(lanes.map((one, index) => [one.lane, index]));
  return claims.sort(
    (a, b) =>
      place.get(a.lane)! - place.get(b.lane)! ||
      (a.runAt === b.runAt ? 0 : a.runAt < b.runAt ? -1 : 1) ||
      a.id.length - b.id.length ||
      (a.id < b.id ? -1 : 1),
  );
}
