import { audit } from "./0008/audit.js";
import { bulk } from "./0008/bulk.js";
import { desiredWorkers } from "./0008/desired-workers.js";
import { withoutGone } from "./0008/lines.js";
import type { Migration } from "./migration.js";

type Part = (jobs: string) => string;

const PARTS: readonly Part[] = [audit, bulk, desiredWorkers, withoutGone];

/** What operators do, recorded; what they do to many jobs at once; what autoscalers ask; and lines from which they took jobs. */
export const operators: Migration = {
  version: 8,
  name: "operators",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
