import { spine } from "../../libs/jobs/src/store/migrations/0001-spine.js";
import { checksum } from "../../libs/jobs/src/store/migrations/migration.js";
import { Bench } from "./harness.js";

/** A schema as the first release made it, and nothing newer. */
export async function firstRelease(): Promise<Bench> {
  const bench = await Bench.open({ migrated: false });
  await bench.sql(`create schema ${bench.schema}`);
  await bench.sql(spine.sql(`"${bench.schema}"`));
  await bench.sql(
    `create table jobs.migration (
       version integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())`,
  );
  await bench.sql("insert into jobs.migration values (1, 'spine', $1)", [checksum(spine)]);
  return bench;
}
