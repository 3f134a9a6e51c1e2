// What is run of all there is: found before a server is started.
import { UsageError } from "./options.mjs";
import { ALL_PEERS, PEERS } from "./peers/index.mjs";
import { plan } from "./plan.mjs";
import { ROWS } from "./rows.mjs";
import { workloadsFor } from "./workloads/index.mjs";

/**
 * The workloads and steps that these options name, on a machine with a Redis or without; `without` are the peers that
 * were asked for and lack one.
 *
 * @throws UsageError when that is nothing, or nothing that a check could judge
 */
export function choose(options, hasRedis) {
  const workloads = workloadsFor(options).filter(
    ({ name }) => options.only?.includes(name) ?? true,
  );
  const asked = (options.peers ?? ALL_PEERS).filter((peer) =>
    workloads.some((workload) => workload.peers.includes(peer)),
  );
  const onRedis = asked.filter((peer) => PEERS[peer].on === "redis");
  const without = hasRedis ? [] : onRedis;
  const steps = plan(
    workloads,
    asked.filter((peer) => !without.includes(peer)),
    options.runs,
  );
  if (steps.length === 0) throw new UsageError(`nothing to run: ${why(options, without)}`);
  const names = workloads.map(({ name }) => name);
  if (options.check && !ROWS.some(({ workload }) => names.includes(workload)))
    throw new UsageError(`--check: no row is about ${names.join(", ")}`);
  return { workloads, without, steps, redis: onRedis.length > without.length };
}

function why({ quick, only, peers }, without) {
  if (without.length > 0)
    return `${without.join(", ")} needs a Redis, and there is no redis-server in the PATH`;
  const what = `${only ? `the workloads ${only.join(", ")}` : "the workloads"}${quick ? " with --quick" : ""}`;
  const who = peers ? ` with the peers ${peers.join(", ")}` : "";
  return `there is nothing of ${what}${who} (--list shows what there is)`;
}
