import type { JobQueue } from "nestjs-pg-jobs";

export async function examples(jobs: JobQueue, invoiceId: string) {
  // one unfinished job at a time
  await jobs.enqueue("invoice.send", { invoiceId }, { key: invoiceId });
  // at most one an hour, also when it has finished or died
  await jobs.enqueue("invoice.remind", { invoiceId }, { key: invoiceId, window: "1h" });
  // the last call wins as long as the job has not begun
  const { deduplicated, replaced } = await jobs.enqueue(
    "search.index",
    { invoiceId, revision: 7 },
    { key: invoiceId, delay: "10s", onConflict: "replace" },
  );
  return { deduplicated, replaced };
}
