import type { Delivery, TransactionalQueue } from "nestjs-pg-jobs";
import { RecordChanged, type RecordSort } from "nestjs-pg-jobs-samples";

/**
 * Tells each index that a record has changed, in the transaction that has changed it. An index that has it by the sort that
 * it had before is told too: it takes the record out.
 * @returns what each index gets, by the name of the subscriber.
 */
export async function publishChange(
  jobs: TransactionalQueue,
  recordId: string,
  sorts: ReadonlySet<RecordSort>,
): Promise<ReadonlyMap<string, Delivery>> {
  const told = new Map<string, Delivery>();
  for (const sort of sorts)
    for (const delivery of await deliver(jobs, recordId, sort))
      if (!told.has(delivery.subscriber)) told.set(delivery.subscriber, delivery);
  return told;
}

/**
 * A delivery that waits will do: it does not start before this is committed, and reads the record then. One that is not
 * replaced runs, and may have read the record before: its index, and no other, gets one under the next key. So an
 * index has never more than one delivery of a record beside as many as have ever run at once.
 */
async function deliver(
  jobs: TransactionalQueue,
  recordId: string,
  routingKey: RecordSort,
): Promise<Delivery[]> {
  const told: Delivery[] = [];
  for (let turn = 1, to: string[] | undefined; to?.length !== 0; turn++) {
    const answers = await jobs.publish(
      RecordChanged,
      { recordId },
      { routingKey, ...(to && { to }), key: `${recordId} ${turn}`, onConflict: "replace-payload" },
    );
    told.push(...answers.filter(({ replaced }) => replaced !== false));
    to = answers.filter(({ replaced }) => replaced === false).map(({ subscriber }) => subscriber);
  }
  return told;
}
