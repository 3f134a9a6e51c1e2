import { enqueueOne } from "./0002/keys.js";
import { claimLimited } from "./0007/claim-limited.js";
import { laneIdles } from "./0007/lanes.js";
import { sweepLimits } from "./0007/sweep-limits.js";
import type { Migration } from "./migration.js";

type Part = (jobs: string) => string;

/** When a living worker last said so. */
const said: Part = (jobs) => `
alter table ${jobs}.limit_said add column said_at timestamptz not null default now();`;

/** A job that waits for its key, and gets another payload or time, may have another key: back to where claims look. */
export const REPLACING_LANE =
  ",\n          lane = case when j.lane between 10000 and 19999 then j.lane - 10000 else j.lane end";

const replace: Part = (jobs) =>
  enqueueOne(jobs, { verb: "create or replace", replacing: REPLACING_LANE });

const PARTS: readonly Part[] = [said, laneIdles, claimLimited, sweepLimits, replace];

/**
 * Lines of jobs that wait for their key go on whatever stands at their head, and who changes does not stay in a line; what the
 * code of workers says of limits is kept for as long as one of them lives. The functions before it serve as well.
 */
export const lines: Migration = {
  version: 7,
  name: "lines",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
