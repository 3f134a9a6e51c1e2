import { type Runner, Statement } from "../../pg/statement.js";

// Requests that may be repeated: who sends one again gets the answer of the first. Of one whose process died nobody knows
// whether it was done, so it is never done again; after a day nobody knows it any more.

/** Longer than anything takes that a request has done. */
const SILENT = "5 minutes";
const KEPT = "1 day";

// One that is forgotten and comes again is a new one.
const take = new Statement(
  "take_request",
  (jobs) => `
with forgotten as materialized (
  select r.ctid as at from ${jobs}.request r
  where r.began_at < now() - interval '${KEPT}' and (r.operator, r.key) <> ($1::text, $2::text)
  order by r.began_at limit 50 for update skip locked
), gone as (
  delete from ${jobs}.request r where r.ctid = any(array(select at from forgotten))
)
insert into ${jobs}.request as r (operator, key, asked)
values ($1::text, $2::text, $3::text)
on conflict (operator, key) do update
set asked = excluded.asked, began_at = excluded.began_at, status = null, body = null
where r.began_at < now() - interval '${KEPT}'
returning extract(epoch from began_at)::text`,
);

const find = new Statement(
  "find_request",
  (jobs) => `
select r.asked = $3::text, r.status, r.body, r.began_at < now() - interval '${SILENT}' from ${jobs}.request r where r.operator = $1::text and r.key = $2::text`,
);

const answer = new Statement(
  "answer_request",
  (jobs) => `
update ${jobs}.request r set status = $4::smallint, body = $5::text::jsonb
where r.operator = $1::text and r.key = $2::text and extract(epoch from r.began_at)::text = $3::text and r.status is null`,
);

const drop = new Statement(
  "drop_request",
  (jobs) => `
delete from ${jobs}.request r
where r.operator = $1::text and r.key = $2::text and extract(epoch from r.began_at)::text = $3::text and r.status is null`,
);

/** Whose key it is. */
export interface RequestKey {
  operator: string;
  key: string;
}

/**
 * `mine`: do it, under this fence. `busy`: another one is at it. `silent`: another one was, and never said how it ended.
 * `other`: the key was used for something else.
 */
export type Taken =
  | { what: "mine"; fence: string }
  | { what: "busy" }
  | { what: "silent" }
  | { what: "other" }
  | { what: "answered"; status: number; body: unknown };

/** Whether this request is to be done, or was. */
export async function takeRequest(
  runner: Runner,
  { operator, key }: RequestKey,
  asked: string,
): Promise<Taken> {
  for (;;) {
    const [mine] = await runner.run(take, [operator, key, asked]);
    if (mine) return { what: "mine", fence: mine[0]! };
    const [found] = await runner.run(find, [operator, key, asked]);
    // Dropped meanwhile.
    if (!found) continue;
    const [same, status, body, silent] = found;
    if (same !== "t") return { what: "other" };
    if (status === null || status === undefined)
      return { what: silent === "t" ? "silent" : "busy" };
    return {
      what: "answered",
      status: Number(status),
      body: JSON.parse(body ?? "null") as unknown,
    };
  }
}

/** What was answered, for who repeats it. */
export async function answerRequest(
  runner: Runner,
  { operator, key }: RequestKey,
  fence: string,
  status: number,
  body: unknown,
): Promise<void> {
  await runner.run(answer, [operator, key, fence, status, JSON.stringify(body ?? null)]);
}

/** It was not done: who repeats it may try. */
export async function dropRequest(
  runner: Runner,
  { operator, key }: RequestKey,
  fence: string,
): Promise<void> {
  await runner.run(drop, [operator, key, fence]);
}
