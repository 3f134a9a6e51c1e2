import { type Runner, Statement } from "../../pg/statement.js";
import { ms } from "../instant.js";

/** A schedule as it is to be. */
export interface NewSchedule {
  name: string;
  queueId: number;
  lane: number;
  kind: string;
  cron: string;
  timeZone: string;
  overlap: string;
  misfire: string;
  attempts: number | null;
  timeoutMs: number | null;
  /** JSON text. */
  payload: string;
  /** Whose code declares it; null: nobody's. */
  service: string | null;
}

/**
 * What has come of it, with whose it was before: null is nobody's, undefined that it was not there. `late`: its first tick
 * was over by then; `refused`: code declares it, and the call is nobody's. Nothing was changed then.
 */
export interface Declared {
  answer: "declared" | "late" | "refused";
  before: string | null | undefined;
}

const readClock = new Statement("read_clock", () => `select ${ms("clock_timestamp()")}`);

// The first tick was reckoned a moment ago. Should it be over by now, a tick of the row that is there may have been the
// same one: so it is refused, and reckoned anew. A timetable that stays as it is keeps the tick that it foresaw.
const declareSchedule = new Statement(
  "declare_schedule",
  (jobs) => `
with before as materialized (
  select s.service from ${jobs}.schedule s where s.name = $1::text
), declared as (
  insert into ${jobs}.schedule (name, queue_id, lane, kind, cron, time_zone, overlap, misfire, attempts, timeout_ms, payload,
    service, next_at)
  select $1::text, $2::integer, $3::smallint, $4::text, $5::text, $6::text, $7::text, $8::text, $9::smallint, $10::bigint,
    $11::text::jsonb, $12::text, $13::timestamptz
  where $13::timestamptz is null or $13::timestamptz > clock_timestamp()
  on conflict (name) do update set queue_id = excluded.queue_id, lane = excluded.lane, kind = excluded.kind,
    cron = excluded.cron, time_zone = excluded.time_zone, overlap = excluded.overlap, misfire = excluded.misfire,
    attempts = excluded.attempts, timeout_ms = excluded.timeout_ms, payload = excluded.payload,
    service = excluded.service, declared_at = now(), orphaned_at = null, retired_at = null,
    next_at = case when schedule.cron = excluded.cron and schedule.time_zone = excluded.time_zone
      and schedule.retired_at is null then schedule.next_at else excluded.next_at end
  where excluded.service is not null or schedule.service is null or schedule.orphaned_at is not null
  returning name
)
select exists (select from declared), exists (select from before), (select service from before),
  coalesce($13::timestamptz <= clock_timestamp(), false)`,
);

/** The server's clock, in ms. */
export async function clock(runner: Runner): Promise<number> {
  const [row] = await runner.run(readClock);
  return Number(row![0]);
}

/** Makes a schedule whose first tick is `next`, or changes the one of this name. What is paused stays so. */
export async function declare(
  runner: Runner,
  one: NewSchedule,
  next: Date | undefined,
): Promise<Declared> {
  const { queueId, lane, kind, cron, timeZone, overlap, misfire, attempts, timeoutMs } = one;
  const [row] = await runner.run(declareSchedule, [
    one.name,
    queueId,
    lane,
    kind,
    cron,
    timeZone,
    overlap,
    misfire,
    attempts,
    timeoutMs,
    one.payload,
    one.service,
    next?.toISOString() ?? null,
  ]);
  const [done, known, service, late] = row!;
  return {
    answer: done === "t" ? "declared" : late === "t" ? "late" : "refused",
    before: known === "t" ? service : undefined,
  };
}
