import type { Migration } from "./migration.js";

/**
 * Who gets what is published: a row for each handler of an event. Few rows, which are updated once a minute by the workers
 * that have them, so half of each page is left.
 */
export const events: Migration = {
  version: 6,
  name: "events",
  sql: (jobs) => `
create table ${jobs}.subscription (
  event text collate "C" not null check (length(event) between 1 and 64),
  kind text collate "C" not null check (length(kind) between 1 and 64),
  queue text collate "C" not null,
  priority smallint not null,
  -- null: all of them, those without a routing key too
  routing_keys jsonb,
  -- whose code declares it, and when it last did
  service text collate "C" not null,
  declared_at timestamptz not null default now(),
  orphaned_at timestamptz,
  -- nothing is delivered to it from then on
  retired_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (event, kind)
) with (fillfactor = 50);
`,
};
