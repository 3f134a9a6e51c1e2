import { type Runner, Statement } from "../../pg/statement.js";

// By row address: the rows are locked, so that they stay where they are; those that are locked are being renewed.
const removeExpired = new Statement(
  "remove_windows",
  (jobs) => `
with expired as materialized (
  select d.ctid as at from ${jobs}.dedup d where d.expires_at <= now()
  order by d.expires_at limit $1::integer for update skip locked
), removed as (
  delete from ${jobs}.dedup d where d.ctid = any(array(select at from expired)) returning 1
)
select count(*) from removed`,
);

/** Forgets the windows of keys that are over, a batch at a time; answers how many there were. */
export async function removeWindows(runner: Runner, batch = 5_000): Promise<number> {
  let total = 0;
  for (;;) {
    const [row] = await runner.run(removeExpired, [batch]);
    total += Number(row![0]);
    if (Number(row![0]) < batch) return total;
  }
}
