import { percentile } from "../numbers.mjs";
import { drain } from "./drain.mjs";

/** Which answers are asked for, as often as all the others: what an operator's screen shows. */
const STATS = ["stats", "queues", "workers"];
const LISTS = [
  "jobs",
  "jobs?state=dead",
  "jobs?state=succeeded&limit=200",
  "jobs?kind=nobody-knows",
  "jobs?state=dead&key=nobody",
  "dead-letters",
  "dead-letters?error=seeded",
  "dead-letters?error=nobody",
  "jobs?error=nobody",
  "jobs?payload=to:nobody@example.com",
];

/** How long the admin API takes over what has piled up, while `viewers` follow its events. */
export async function adminReads(stage, { viewers, rounds }) {
  const admin = await stage.admin(viewers);
  // The first ones connect, and meet their code.
  await admin.call("read", { paths: [...STATS, ...LISTS], rounds: 2 });
  const times = await admin.call("read", { paths: [...STATS, ...LISTS], rounds });
  const of = (paths) => paths.flatMap((path) => times[path]);
  const slowest = (paths) => Math.max(...paths.map((path) => percentile(times[path], 0.95)));
  return {
    p50: percentile(of([...STATS, ...LISTS]), 0.5),
    statsP95: slowest(STATS),
    listsP95: slowest(LISTS),
  };
}

/** A drain while so many follow the events of the admin API. */
export async function watchedDrain(stage, { viewers, ...options }) {
  if (viewers > 0) await stage.admin(viewers);
  return await drain(stage, options);
}
