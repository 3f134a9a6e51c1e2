import type { Session } from "../../pg/session.js";
import { isCheckViolation } from "../../pg/sqlstate.js";
import { type Row, type Runner, Statement } from "../../pg/statement.js";

/** Where a job of one kind and priority waits. */
export interface Lane {
  queueId: number;
  lane: number;
  kind: string;
  priority: number;
}

/** Lanes that are set aside keep their number: parked and quarantined jobs stand that much further on. */
export const PARKED = 10_000;
export const QUARANTINED = 20_000;
/** A queue has had its last kind and priority. */
export class NoLaneLeftError extends Error {
  override readonly name = "NoLaneLeftError";
}

export const laneOf = (lane: number): number => lane % PARKED;
export const isQuarantined = (lane: number): boolean => lane >= QUARANTINED;

const findQueue = new Statement(
  "find_queue",
  (jobs) => `select id, version from ${jobs}.queue where name = $1::text`,
);
const makeQueue = new Statement(
  "make_queue",
  (jobs) => `insert into ${jobs}.queue (name) values ($1::text) on conflict do nothing`,
);
/** Waits until nobody else changes the queue. */
export const lockQueue = new Statement(
  "lock_queue",
  (jobs) => `select id from ${jobs}.queue where id = $1::integer for update`,
);
const findLane = new Statement(
  "find_lane",
  (jobs) =>
    `select id from ${jobs}.lane where queue_id = $1::integer and kind = $2::text and priority = $3::smallint`,
);
const makeLane = new Statement(
  "make_lane",
  (jobs) => `
with made as (
  insert into ${jobs}.lane (queue_id, id, kind, priority)
  select $1::integer, (select coalesce(max(id) + 1, 0) from ${jobs}.lane where queue_id = $1::integer), $2::text, $3::smallint
  returning id
)
update ${jobs}.queue set version = version + 1 where id = $1::integer returning (select id from made)`,
);
const listLanes = new Statement(
  "list_lanes",
  (jobs) =>
    `select queue_id, id, kind, priority from ${jobs}.lane where queue_id = any($1::integer[]) order by queue_id, id`,
);

// Both are looked up before they are made: an insert that conflicts burns an id. They are made on our own
// connection and committed there, so that a caller's rollback cannot leave a cached id that does not exist.

/** The id of a queue, made on first use. */
export async function ensureQueue(
  runner: Runner,
  name: string,
): Promise<{ id: number; version: number }> {
  for (;;) {
    const [row] = await runner.run(findQueue, [name]);
    if (row) return { id: Number(row[0]), version: Number(row[1]) };
    await runner.run(makeQueue, [name]);
  }
}

/** The lane of a kind and priority, made on first use; `made` tells waiting workers to look again. */
export async function ensureLane(
  session: Session,
  queueId: number,
  kind: string,
  priority: number,
): Promise<{ lane: number; made: boolean }> {
  const [found] = await session.run(findLane, [queueId, kind, priority]);
  if (found) return { lane: Number(found[0]), made: false };
  return await session.transaction(async (run) => {
    await run(lockQueue, [queueId]);
    const [again] = await run(findLane, [queueId, kind, priority]);
    if (again) return { lane: Number(again[0]), made: false };
    const [made] = await run(makeLane, [queueId, kind, priority]).catch((error: unknown) => {
      throw isCheckViolation(error) ? new NoLaneLeftError() : error;
    });
    return { lane: Number(made![0]), made: true };
  });
}

/**
 * Where a job should stand that was found in a lane, known here as one of another kind: makes the lane if needed.
 * Answers whether it is there already: then it is what is known here that is wrong.
 */
export async function ensureOwnLane(
  session: Session,
  { queueId, kind, lane }: { queueId: number; kind: string; lane: number },
): Promise<"there" | "elsewhere"> {
  const stands = (await lanesOf(session, [queueId])).find(({ lane: id }) => id === laneOf(lane));
  if (stands?.kind === kind) return "there";
  await ensureLane(session, queueId, kind, stands?.priority ?? 0);
  return "elsewhere";
}

export async function lanesOf(session: Session, queueIds: readonly number[]): Promise<Lane[]> {
  const rows = await session.run(listLanes, [`{${queueIds.join(",")}}`]);
  return rows.map(([queueId, lane, kind, priority]: Row) => ({
    queueId: Number(queueId),
    lane: Number(lane),
    kind: kind!,
    priority: Number(priority),
  }));
}
