import { deadLetters, withoutOldAges } from "./0002/dead-letters.js";
import { history, jobEvent } from "./0002/history.js";
import { keys } from "./0002/keys.js";
import { locks } from "./0002/locks.js";
import { retention } from "./0002/retention.js";
import { seclusion } from "./0002/seclusion.js";
import { sql } from "./0002/sql.js";
import type { Migration } from "./migration.js";
import { progress } from "./0002/progress.js";

type Part = (jobs: string) => string;

/** Keys, SQL functions, history, retention, progress: a file each, so that each can be read alone. */
const PARTS: readonly Part[] = [
  // Over millions of letters it takes a while, in which only who dies has to wait.
  deadLetters,
  locks,
  withoutOldAges,
  history,
  retention,
  jobEvent,
  keys,
  sql,
  progress,
  seclusion,
];

/** Adds to the spine, changes nothing of it: the release before goes on working on this schema. */
export const foundation: Migration = {
  version: 2,
  name: "foundation",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
