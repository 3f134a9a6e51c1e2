import { audit } from "./0009/audit.js";
import { days } from "./0009/days.js";
import { desiredWorkers } from "./0009/desired-workers.js";
import { keys } from "./0009/keys.js";
import { sights } from "./0009/sights.js";
import { status } from "./0009/status.js";
import type { Migration } from "./migration.js";

type Part = (jobs: string) => string;

const PARTS: readonly Part[] = [days, keys, audit, desiredWorkers, sights, status];

/** What is seen of workers and schedules; and functions that anybody may call have bounds. */
export const watch: Migration = {
  version: 9,
  name: "watch",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
