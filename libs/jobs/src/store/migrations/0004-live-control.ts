import { control } from "./0004/control.js";
import { pauses } from "./0004/pauses.js";
import type { Migration } from "./migration.js";

type Part = (jobs: string) => string;

/** What is said to queues and jobs that are at work: a file each, so that each can be read alone. */
const PARTS: readonly Part[] = [pauses, control];

/** Adds to the schema before, changes nothing of it: the release before goes on working on this schema. */
export const liveControl: Migration = {
  version: 4,
  name: "live-control",
  sql: (jobs) => PARTS.map((part) => part(jobs).trim()).join("\n\n"),
};
