import { type Runner, Statement } from "../../pg/statement.js";
import type { ProcessVitals } from "../workers/workers.js";
import { iso } from "./columns.js";

/** A process at work, as it described itself and last said so. */
export interface WorkerView {
  /** As in the view's `worker`: host:pid. */
  worker: string;
  host: string;
  pid: number;
  /** It has not stopped, and has said so within the last minute. */
  alive: boolean;
  startedAt: string;
  stoppedAt: string | null;
  /** When it last said that it lives, and how long ago that is by the database's clock, in ms. */
  beatAt: string;
  beatAgeMs: number;
  /** By queue, the kinds that it has handlers for. */
  kinds: Record<string, string[]>;
  /** How many jobs it can run at once. */
  slots: number;
  /** How many it ran at its last beat. */
  running: number;
  /** How many attempts it found in other hands. */
  lost: number;
  /** The release of this package that it runs; null: it has not said. */
  release: string | null;
  /** How late its timers were between its last two beats, in ms, of the slowest hundredth; null: it has not said. */
  loopDelayMs: number | null;
  /** Of those that ran at its last beat: the 20 that had run the longest. */
  current: CurrentJob[];
}

/** A job that a worker runs. */
export interface CurrentJob {
  id: string;
  kind: string;
  startedAt: string;
}

// What it has said of itself is a column of later schemas.
// A process whose connection was lost goes on under a new id: of its older rows only those that still beat are shown.
const listWorkers = new Statement(
  "workers",
  (jobs) => `
select w.host, w.pid, w.stopped_at is null and w.beat_at > now() - interval '1 minute', ${iso("w.started_at")},
  ${iso("w.stopped_at")}, ${iso("w.beat_at")}, greatest(0, extract(epoch from now() - w.beat_at) * 1000)::bigint, w.kinds, w.slots,
  w.running, w.lost, to_jsonb(w) ->> 'vitals'
from ${jobs}.worker w
where w.beat_at > now() - interval '1 day'
  and (w.beat_at > now() - interval '1 minute' or not exists (
    select from ${jobs}.worker later where later.host = w.host and later.pid = w.pid and later.id > w.id))
order by w.stopped_at is not null, w.beat_at desc, w.id desc limit 1000`,
);

export async function workers(runner: Runner): Promise<WorkerView[]> {
  const rows = await runner.run(listWorkers);
  return rows.map(
    ([
      host,
      pid,
      alive,
      startedAt,
      stoppedAt,
      beatAt,
      age,
      kinds,
      slots,
      running,
      lost,
      vitals,
    ]) => ({
      worker: `${host}:${pid}`,
      host: host!,
      pid: Number(pid),
      alive: alive === "t",
      startedAt: startedAt!,
      stoppedAt: stoppedAt ?? null,
      beatAt: beatAt!,
      beatAgeMs: Number(age),
      kinds: JSON.parse(kinds!) as Record<string, string[]>,
      slots: Number(slots),
      running: Number(running),
      lost: Number(lost),
      ...seen(vitals, beatAt!, stoppedAt === null),
    }),
  );
}

const NOTHING_SAID: ProcessVitals = { release: null, loopDelayMs: null, current: [] };

function seen(
  vitals: string | null | undefined,
  beatAt: string,
  works: boolean,
): Pick<WorkerView, "release" | "loopDelayMs" | "current"> {
  const said = vitals ? (JSON.parse(vitals) as ProcessVitals) : NOTHING_SAID;
  const current = works ? said.current : [];
  return {
    release: said.release,
    loopDelayMs: said.loopDelayMs,
    current: current.map(({ id, kind, ranMs }) => ({
      id,
      kind,
      startedAt: new Date(Date.parse(beatAt) - ranMs).toISOString(),
    })),
  };
}
