import { type Runner, Statement } from "../../pg/statement.js";

const registerWorker = new Statement(
  "register_worker",
  (jobs) => `
with waits_for_disk as materialized (
  select set_config('synchronous_commit', case level when 'off' then 'local' else level end, true)
  from current_setting('synchronous_commit') level
)
insert into ${jobs}.worker (host, pid, kinds, slots)
select $1::text, $2::integer, $3::text::jsonb, $4::integer from waits_for_disk returning id`,
);

const registerWithRetention = new Statement(
  "register_worker_with_retention",
  (jobs) => `
with waits_for_disk as materialized (
  select set_config('synchronous_commit', case level when 'off' then 'local' else level end, true)
  from current_setting('synchronous_commit') level
)
insert into ${jobs}.worker (host, pid, kinds, slots, keep_finished)
select $1::text, $2::integer, $3::text::jsonb, $4::integer, $5::float8 * interval '1 ms' from waits_for_disk returning id`,
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

const retireWorker = new Statement(
  "retire_worker",
  (jobs) => `
update ${jobs}.worker set beat_at = now(), stopped_at = now(), running = 0, lost = $2::bigint where id = $1::integer`,
);

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
}

/**
 * A fresh worker id: half of the fence. Waits for the disk whatever the server's default, so that no crash gives it
 * out again.
 */
export async function register(runner: Runner, card: WorkerCard): Promise<number> {
  const about = [card.host, card.pid, JSON.stringify(card.kinds), card.slots];
  const [row] =
    card.keepFinishedMs === undefined
      ? await runner.run(registerWorker, about)
      : await runner.run(registerWithRetention, [...about, card.keepFinishedMs]);
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
): Promise<boolean> {
  return (await runner.run(beatWorker, [worker, running, lost])).length > 0;
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
