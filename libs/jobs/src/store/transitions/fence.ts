import { arrayOf } from "../../pg/statement.js";

/** Who may end an attempt: this job, this attempt, claimed by this worker. Nobody else matches the row. */
export interface Fence {
  id: string;
  attempt: number;
}

/** The fence of a whole batch in one jsonb object `{id: [attempt, …]}`: `= any` keeps the plan, the object the pairs. */
export const fenced = `j.queue_id = $1::integer and j.id = any($2::bigint[]) and j.worker = $4::integer
    and j.attempt = ($3::jsonb -> j.id::text ->> 0)::integer`;

/** Field `n` of a job's entry in the batch object. */
export const field = (n: number) => `$3::jsonb -> j.id::text -> ${n}`;
export const textField = (n: number) => `$3::jsonb -> j.id::text ->> ${n}`;

/** The parameters that {@link fenced} expects; each entry's further fields are JSON texts. */
export function fenceValues<T extends Fence>(
  queueId: number,
  worker: number,
  batch: readonly T[],
  fields?: (one: T) => string,
): [number, string, string, number] {
  let entries = "";
  for (const one of batch) {
    entries += `${entries === "" ? "{" : ","}"${one.id}":[${one.attempt}${fields ? `,${fields(one)}` : ""}]`;
  }
  return [queueId, arrayOf(batch.map((one) => one.id)), `${entries}}`, worker];
}
