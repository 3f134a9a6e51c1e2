import { claimLimited } from "./0007/claim-limited.js";
import { sweepLimits } from "./0007/sweep-limits.js";
import type { Migration } from "./migration.js";

type Part = (jobs: string) => string;

const PARTS: readonly Part[] = [claimLimited, sweepLimits];

/** Lines of jobs that wait for their key go on though somebody has their head. The functions before it serve as well. */
export const lines: Migration = {
  version: 7,
  name: "lines",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
