import { type Runner, Statement } from "../../pg/statement.js";

/** With what later schemas have room for. */
const registering = (name: string, column = "", value = "") =>
  new Statement(
    name,
    (jobs) => `
with waits_for_disk as materialized (
  select set_config('synchronous_commit', case level when 'off' then 'local' else level end, true)
  from current_setting('synchronous_commit') level
)
insert into ${jobs}.worker (host, pid, kinds, slots${column})
select $1::text, $2::integer, $3::text::jsonb, $4::integer${value} from waits_for_disk returning id`,
  );

const registerWorker = registering("register_worker");
const registerWithRetention = registering(
  "register_worker_with_retention",
  ", keep_finished",
  ", $5::float8 * interval '1 ms'",
);
const registerWithVitals = registering(
  "register_worker_with_vitals",
  ", keep_finished, vitals",
  ", $5::float8 * interval '1 ms', $6::text::jsonb",
);

const sayKept = new Statement(
  "say_kept_finished",
  (jobs) => `
update ${jobs}.worker set keep_finished = $2::float8 * interval '1 ms' where id = $1::integer`,
);

const beatWorker = new Statement(
  "beat_worker",
  (jobs) => `
update ${jobs}.worker set beat_at = now(), running = $2::integer, lost = $3::bigint where id = $1::integer returning id`,
);

const beatWithVitals = new Statement(
  "beat_worker_with_vitals",
  (jobs) => `
update ${jobs}.worker set beat_at = now(), running = $2::integer, lost = $3::bigint, vitals = $4::text::jsonb
where id = $1::integer returning id`,
);

const retireWorker = new Statement(
  "retire_worker",
  (jobs) => `
update ${jobs}.worker set beat_at = now(), stopped_at = now(), running = 0, lost = $2::bigint where id = $1::integer`,
);

/** The schema version that has room for {@link ProcessVitals}. */
export const VITALS_SINCE = 9;

/** What a process says of itself with each beat. */
export interface ProcessVitals {
  /** Of this package; null: it does not know. */
  release: string | null;
  /** The delay of its event loop since the last beat, in ms, of the slowest hundredth; null: not yet known. */
  loopDelayMs: number | null;
  /** The bodies that have run the longest. */
  current: readonly RunningJob[];
}

/** A job whose body runs, and for how long it does. */
export interface RunningJob {
  id: string;
  kind: string;
  ranMs: number;
}

// Somebody who is stopped today may be started again tomorrow.
const findKept = new Statement(
  "kept_finished",
  (jobs) => `
select extract(epoch from w.keep_finished) * 1000, bool_or(w.stopped_at is null and w.beat_at > now() - interval '1 minute')
from ${jobs}.worker w where w.beat_at > now() - interval '1 day' and w.keep_finished is not null
group by w.keep_finished`,
);

// OFFSET 0 keeps each look-up by its index; the lane lets in one that no other statement uses.
const forgetSilent = new Statement(
  "forget_workers",
  (jobs) => `
delete from ${jobs}.worker w
where w.beat_at < now() - $1::float8 * interval '1 ms' - interval '2 days'
  and not exists (select from ${jobs}.dead d where d.worker = w.id and d.lane > -1 offset 0)
  and not exists (select from ${jobs}.dead_archive d where d.worker = w.id and d.lane > -1 offset 0)`,
);

/** What a worker says of itself when it registers. */
export interface WorkerCard {
  host: string;
  pid: number;
  /** By queue, the kinds that it has handlers for. */
  kinds: Record<string, string[]>;
  slots: number;
  /** How long it was told to keep what is finished; absent where the schema has no room for it. */
  keepFinishedMs?: number;
  /** Absent where the schema has no room for it; with it goes `keepFinishedMs`. */
  vitals?: ProcessVitals;
}

/**
 * A fresh worker id: half of the fence. Waits for the disk whatever the server's default, so that no crash gives it
 * out again.
 */
export async function register(runner: Runner, card: WorkerCard): Promise<number> {
  const about = [card.host, card.pid, JSON.stringify(card.kinds), card.slots];
  const { keepFinishedMs, vitals } = card;
  const [row] =
    keepFinishedMs === undefined
      ? await runner.run(registerWorker, about)
      : vitals === undefined
        ? await runner.run(registerWithRetention, [...about, keepFinishedMs])
        : await runner.run(registerWithVitals, [...about, keepFinishedMs, JSON.stringify(vitals)]);
  return Number(row![0]);
}

/** For one that registered before the schema had room for it. */
export async function sayKeptFinished(
  runner: Runner,
  worker: number,
  keepFinishedMs: number,
): Promise<void> {
  await runner.run(sayKept, [worker, keepFinishedMs]);
}

/** Says that it lives; answers whether it is known: one that was silent for days is forgotten. */
export async function beat(
  runner: Runner,
  worker: number,
  running: number,
  lost: number,
  vitals?: ProcessVitals,
): Promise<boolean> {
  const said = [worker, running, lost];
  const rows =
    vitals === undefined
      ? await runner.run(beatWorker, said)
      : await runner.run(beatWithVitals, [...said, JSON.stringify(vitals)]);
  return rows.length > 0;
}

export async function retire(runner: Runner, worker: number, lost: number): Promise<void> {
  await runner.run(retireWorker, [worker, lost]);
}

/** What workers of the last day were told to keep: the longest, and what those say that live now. */
export async function keptFinished(
  runner: Runner,
): Promise<{ longestMs: number; live: readonly number[] }> {
  const rows = await runner.run(findKept);
  return {
    longestMs: Math.max(0, ...rows.map(([ms]) => Number(ms))),
    live: rows.filter(([, lives]) => lives === "t").map(([ms]) => Number(ms)),
  };
}

/** Rows of workers that are long gone and that no dead letter names. */
export async function forgetWorkers(runner: Runner, keepMs: number): Promise<void> {
  await runner.run(forgetSilent, [keepMs]);
}
