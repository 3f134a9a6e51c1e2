import { deadLetters } from "./0002/dead-letters.js";
import { keys } from "./0002/keys.js";
import { sql } from "./0002/sql.js";
import type { Migration } from "./migration.js";
import { cancelled } from "./0002/cancelled.js";
import { partitions } from "./0002/partitions.js";

type Part = (jobs: string) => string;

/** Keys, SQL functions, history, retention, progress: a file each, so that each can be read alone. */
const PARTS: readonly Part[] = [partitions, deadLetters, cancelled, keys, sql];

/** Adds to the spine, changes nothing of it: the release before goes on working on this schema. */
export const foundation: Migration = {
  version: 2,
  name: "foundation",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
