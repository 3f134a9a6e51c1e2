import { type RecordSort, SavedRecord } from "nestjs-pg-jobs-samples";
import type { EntityManager } from "typeorm";

/** Saves a record, in a transaction; answers the sorts that it has now and had before. */
export async function saveRecord(
  em: EntityManager,
  { id, text, sort }: Omit<SavedRecord, "revision">,
): Promise<ReadonlySet<RecordSort>> {
  const records = em.getRepository(SavedRecord);
  // Made first, then locked: of two that save a new record at once the later one sees the sort of the other.
  const fresh = { id, text, sort, revision: 0 };
  await records.createQueryBuilder().insert().values(fresh).orIgnore().execute();
  const lock = { mode: "pessimistic_write" } as const;
  const before = await records.findOneOrFail({ where: { id }, lock });
  await records.update(id, { text, sort, revision: before.revision + 1 });
  return new Set([before.sort, sort]);
}
