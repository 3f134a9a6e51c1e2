import { type Runner, Statement } from "../../pg/statement.js";

// Code declares schedules when it starts, and says once a minute that it still does. What nobody says any more is an
// orphan: it is told of, and later retired, by its own service only.

const SILENT = "5 minutes";
const PATIENCE = "10 minutes";

/** A schedule that its service does not declare any more. */
export interface Orphan {
  name: string;
  /** It has no ticks from now on; else it was found just now, and will be. */
  retired: boolean;
}

const keepSchedules = new Statement(
  "keep_schedules",
  (jobs) => `
with kept as (
  update ${jobs}.schedule s set declared_at = now(), orphaned_at = null
  where s.name = any($2::text[]) and s.retired_at is null
    and (s.declared_at < now() - interval '1 minute' or s.orphaned_at is not null)
)
update ${jobs}.schedule s
set orphaned_at = coalesce(s.orphaned_at, now()), retired_at = case when s.orphaned_at is not null then now() end
where s.service = $1::text and s.name <> all($2::text[]) and s.retired_at is null
  and s.declared_at < now() - interval '${SILENT}'
  and (s.orphaned_at is null or s.orphaned_at < now() - interval '${PATIENCE}')
returning s.name, s.retired_at is not null`,
);

/** Says that these are declared still, whoever did it last; answers what `service` does not any more, each once. */
export async function keep(
  runner: Runner,
  service: string,
  names: readonly string[],
): Promise<Orphan[]> {
  const rows = await runner.run(keepSchedules, [service, names]);
  return rows.map(([name, retired]) => ({ name: name!, retired: retired === "t" }));
}
