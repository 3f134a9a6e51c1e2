import {
  type AttemptError,
  type HistoryEvent,
  type JobInspector,
  type JobLogPage,
  type JobView,
  SchemaNotReadyError,
} from "nestjs-pg-jobs";
import type { Visible } from "../payloads/payloads.js";

/** All that is known of a job. */
export interface KnownJob extends JobView {
  /** Each failed attempt with its error, stack and causes, oldest first. */
  errors: AttemptError[];
  /** What happened to it, in order; null: the schema of the database is too old for it. */
  history: HistoryEvent[] | null;
  /** The first page of its log; null: the schema of the database is too old for it. */
  logs: JobLogPage | null;
}

/** What `GET jobs/:id` answers. */
export type JobDetails = Visible<KnownJob>;

/** Null when there is no such job. @throws BadJobIdError */
export async function jobDetails(inspector: JobInspector, id: string): Promise<KnownJob | null> {
  const job = await inspector.get(id);
  if (!job) return null;
  const [errors, history, logs] = await Promise.all([
    inspector.attempts(id),
    inspector.history(id).catch(nullIfTooOld),
    inspector.logs(id).catch(nullIfTooOld),
  ]);
  return { ...job, errors, history, logs };
}

function nullIfTooOld(error: unknown): null {
  if (error instanceof SchemaNotReadyError && error.feature !== undefined) return null;
  throw error;
}
