import { claimLimited } from "./0005/claim-limited.js";
import { limits as tables } from "./0005/limits.js";
import { sweepLimits } from "./0005/sweep-limits.js";
import type { Migration } from "./migration.js";

type Part = (jobs: string) => string;

/** What bounds the jobs of a queue, the claim of those that have bounds, and who sees to what is left over: a file each. */
const PARTS: readonly Part[] = [tables, claimLimited, sweepLimits];

/** Adds to the schema before, changes nothing of it: the release before goes on working on this schema. */
export const limits: Migration = {
  version: 5,
  name: "limits",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
