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

const beatWorker = new Statement(
  "beat_worker",
  (jobs) => `
update ${jobs}.worker set beat_at = now(), running = $2::integer, lost = $3::bigint where id = $1::integer`,
);

const retireWorker = new Statement(
  "retire_worker",
  (jobs) => `
update ${jobs}.worker set beat_at = now(), stopped_at = now(), running = 0, lost = $2::bigint where id = $1::integer`,
);

/** What a worker says of itself when it registers. */
export interface WorkerCard {
  host: string;
  pid: number;
  /** By queue, the kinds that it has handlers for. */
  kinds: Record<string, string[]>;
  slots: number;
}

/**
 * A fresh worker id: half of the fence. Waits for the disk whatever the server's default, so that no crash gives it
 * out again.
 */
export async function register(runner: Runner, card: WorkerCard): Promise<number> {
  const [row] = await runner.run(registerWorker, [
    card.host,
    card.pid,
    JSON.stringify(card.kinds),
    card.slots,
  ]);
  return Number(row![0]);
}

export async function beat(
  runner: Runner,
  worker: number,
  running: number,
  lost: number,
): Promise<void> {
  await runner.run(beatWorker, [worker, running, lost]);
}

export async function retire(runner: Runner, worker: number, lost: number): Promise<void> {
  await runner.run(retireWorker, [worker, lost]);
}
