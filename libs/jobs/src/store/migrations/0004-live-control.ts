import { pauses } from "./0004/pauses.js";
import type { Migration } from "./migration.js";

type Part = (jobs: string) => string;

const PARTS: readonly Part[] = [pauses];

/** What people do to queues and jobs that are at work. */
export const liveControl: Migration = {
  version: 4,
  name: "live-control",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
