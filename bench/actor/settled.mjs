import { setTimeout as sleep } from "node:timers/promises";
import { now } from "./clock.mjs";

const LOOK_EVERY_MS = 2;
const PATIENCE_MS = 60_000;

/** Looks until nothing is left. `at` is when the look that found so was sent: what looking costs is in nobody's time. */
export async function settled(left, patienceMs = PATIENCE_MS) {
  const until = now() + patienceMs;
  for (let looks = 1; ; looks++) {
    const at = now();
    if (!(await left())) return { at, looks };
    if (now() > until) throw new Error("all jobs have run, and some are not settled");
    await sleep(LOOK_EVERY_MS);
  }
}
