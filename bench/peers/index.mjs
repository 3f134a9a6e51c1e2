// Who takes part. A peer's own file is loaded by its child processes only: it loads the library.

export const PEERS = {
  ours: { title: "nestjs-pg-jobs" },
  "pg-boss": { title: "pg-boss" },
  "graphile-worker": { title: "graphile-worker" },
  "bullmq-postgres": { title: "BullMQ on PostgreSQL" },
  "bullmq-redis": { title: "BullMQ on Redis", on: "redis" },
  floor: { title: "floor: SQL and pg" },
  bare: { title: "bare loop of our statements" },
};

export const ON_POSTGRES = ["pg-boss", "graphile-worker", "bullmq-postgres"];
/** Whom somebody would use instead. */
export const REAL_PEERS = [...ON_POSTGRES, "bullmq-redis"];
export const ALL_PEERS = Object.keys(PEERS);
