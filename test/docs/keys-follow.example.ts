import type { Enqueued, TransactionalQueue } from "nestjs-pg-jobs";

/** A run that sees what this transaction has written. */
export async function runAfterThis(jobs: TransactionalQueue, invoiceId: string): Promise<Enqueued> {
  for (let turn = 1; ; turn++) {
    const key = `${invoiceId} ${turn}`;
    const onConflict = "replace-payload";
    const answer = await jobs.enqueue("search.index", { invoiceId }, { key, onConflict });
    // replaced === false: that one runs already, and may have read the invoice before
    if (answer.replaced !== false) return answer;
  }
}
