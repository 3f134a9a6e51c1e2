import { createHash } from "node:crypto";

/** One step of the schema: SQL that only adds, so that the release before can go on working. */
export interface Migration {
  version: number;
  name: string;
  sql: (schema: string) => string;
}

/** Over the text for a fixed schema name, so that the same migration has the same checksum everywhere. */
export function checksum(migration: Migration): string {
  return createHash("sha256").update(migration.sql('"jobs"')).digest("hex").slice(0, 32);
}
