import type { PauseView } from "../../job/pause.js";
import type { Misfire } from "../../job/ticks.js";
import type { Overlap } from "../../job/schedule.js";
import { formatJobId } from "../../job/job-id.js";
import type { JobState } from "../../job/state.js";
import { type Row, type Runner, Statement } from "../../pg/statement.js";
import { instant, ms } from "../instant.js";
import { outcomes } from "../reads/outcomes.js";

/** The schema version that has schedules. */
export const SCHEDULES_SINCE = 3;

/** A job that a schedule has made, and where it is; `state` is null when it is not kept any more. */
export interface ScheduledJobRun {
  id: string;
  state: JobState | null;
}

/** A schedule as it stands. */
export interface ScheduleView {
  name: string;
  kind: string;
  queue: string;
  priority: number;
  cron: string;
  timeZone: string;
  overlap: Overlap;
  misfire: Misfire;
  payload: unknown;
  /** The tick that is foreseen; null: none comes any more. */
  nextAt: Date | null;
  /** The newest tick that was seen to, whether it had a job or was left out. */
  lastAt: Date | null;
  /** The newest job. */
  lastJob: string | null;
  /** Its last five jobs, the newest first; of ticks that had several the newest. Needs schema 9, else there are none. */
  lastRuns: ScheduledJobRun[];
  paused: PauseView | null;
  /** Whose code declares it; null: it was made by `upsert`. */
  service: string | null;
  /** Since when its service does not declare it any more. */
  orphanedAt: Date | null;
  /** Since when it has no ticks for that. */
  retiredAt: Date | null;
  createdAt: Date;
}

const COLUMNS = `s.name, s.kind, q.name, l.priority::text, s.cron, s.time_zone, s.overlap, s.misfire, s.payload::text,
  ${ms("s.next_at")}, ${ms("s.last_at")}, s.queue_id::text, s.last_job::text, ${ms("s.paused_at")}, ${ms("s.paused_until")},
  s.paused_by, s.paused_why, s.service, ${ms("s.orphaned_at")}, ${ms("s.retired_at")}, ${ms("s.created_at")},
  coalesce(to_jsonb(s) ->> 'recent_jobs', '[]')`;

const from = (jobs: string) => `from ${jobs}.schedule s
join ${jobs}.queue q on q.id = s.queue_id
join ${jobs}.lane l on l.queue_id = s.queue_id and l.id = s.lane`;

const findSchedule = new Statement(
  "find_schedule",
  (jobs) => `select ${COLUMNS} ${from(jobs)} where s.name = $1::text`,
);

const listSchedules = new Statement(
  "list_schedules",
  (jobs) => `select ${COLUMNS} ${from(jobs)} order by s.name`,
);

/** A schedule, and the numbers of its last jobs. */
interface Seen {
  view: ScheduleView;
  queueId: number;
  recent: readonly string[];
}

function seenOf(row: Row): Seen {
  const [name, kind, queue, priority, cron, timeZone, overlap, misfire, payload, ...more] = row;
  const [nextAt, lastAt, queueId, lastJob, pausedAt, until, by, why, service, ...times] = more;
  const [orphanedAt, retiredAt, createdAt] = times.slice(0, 3).map(instant);
  const view = {
    name: name!,
    kind: kind!,
    queue: queue!,
    priority: Number(priority),
    cron: cron!,
    timeZone: timeZone!,
    overlap: overlap as Overlap,
    misfire: misfire as Misfire,
    payload: JSON.parse(payload!) as unknown,
    nextAt: instant(nextAt),
    lastAt: instant(lastAt),
    lastJob: lastJob == null ? null : formatJobId(Number(queueId), lastJob),
    lastRuns: [],
    paused:
      pausedAt == null
        ? null
        : { at: instant(pausedAt)!, until: instant(until), by: by ?? null, why: why ?? null },
    service: service ?? null,
    orphanedAt: orphanedAt!,
    retiredAt: retiredAt!,
    createdAt: createdAt!,
  };
  return { view, queueId: Number(queueId), recent: times[3]!.match(/\d+/g) ?? [] };
}

/** `archive`: the schema has one. */
export async function findByName(
  runner: Runner,
  name: string,
  archive: boolean,
): Promise<ScheduleView | undefined> {
  const rows = await runner.run(findSchedule, [name]);
  return (await withRuns(runner, rows.map(seenOf), archive))[0];
}

/** All of them, by name. */
export async function list(runner: Runner, archive: boolean): Promise<ScheduleView[]> {
  const rows = await runner.run(listSchedules);
  return await withRuns(runner, rows.map(seenOf), archive);
}

async function withRuns(
  runner: Runner,
  schedules: readonly Seen[],
  archive: boolean,
): Promise<ScheduleView[]> {
  const sought = schedules.flatMap(({ queueId, recent }) =>
    recent.map((number) => ({ queueId, number })),
  );
  const found = sought.length === 0 ? [] : await outcomes(runner, sought, archive);
  const states = new Map(found.map(({ queueId, id, state }) => [formatJobId(queueId, id), state]));
  return schedules.map(({ view, queueId, recent }) => {
    const ids = recent.map((number) => formatJobId(queueId, number));
    return { ...view, lastRuns: ids.map((id) => ({ id, state: states.get(id) ?? null })) };
  });
}
