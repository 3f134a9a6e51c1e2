import { Statement } from "../../pg/statement.js";
import { fenced } from "./fence.js";

// Run by the renewing thread, which has a connection of its own. A row that is locked is being settled: skip it.
// The fence decides, not the lease: after an outage a late renewal is as good as a punctual one.
export const renewLeases = new Statement(
  "renew",
  (jobs) => `
-- running -> running
with mine as materialized (
  select j.id from ${jobs}.job j
  where ${fenced}
    and j.lease_until is not null
  for update skip locked
)
update ${jobs}.job j
set lease_until = to_timestamp(extract(epoch from now())::float8 + $5::float8 / 1000)
where j.queue_id = $1::integer and j.id = any(array(select id from mine))
returning j.id`,
);

/** Of claims that could not be renewed: those that are still ours, only locked for the moment. */
export const stillHeld = new Statement(
  "still_held",
  (jobs) => `
select j.id from ${jobs}.job j
where ${fenced}
  and j.lease_until is not null`,
);
