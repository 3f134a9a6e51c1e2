import { enqueue, enqueueKeyed } from "../../libs/jobs/src/store/transitions/enqueue.js";
import type { NewJob } from "../../libs/jobs/src/store/transitions/new-jobs.js";
import { ensureLane } from "../../libs/jobs/src/store/queues/lanes.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";

// A batch goes as lists side by side; what jobs have in common goes once. Each row must come out as its job says.

let bench: Bench;
let hands: Hands;
let other: { lane: number };
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  other = await ensureLane(hands.session, hands.queueId, "other", 7);
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("delete from jobs.job")));

let id = 1_000_000;
const job = (over: Partial<NewJob> = {}): NewJob => hands.job({ id: String(++id), ...over });

const AT = new Date("2030-01-02T03:04:05.678Z");

/** What the rows say, by id; the wait in whole seconds. */
async function rows() {
  return await bench.sql(
    `select id::text, lane, kind, case when run_at = $1 then 'at' else round(extract(epoch from run_at - created_at))::text end as due,
       attempts, timeout_ms::int as timeout, key, payload::text, headers::text
     from jobs.job order by id`,
    [AT],
  );
}
const said = (one: NewJob) => ({
  id: one.id,
  lane: one.lane,
  kind: one.kind,
  due: one.at ? "at" : String(Math.round(one.delayMs / 1_000)),
  attempts: one.attempts,
  timeout: one.timeoutMs,
  key: one.key,
  payload: one.payload,
  headers: one.headers ?? null,
});

const PAYLOADS = ["null", "[]", '"text"', "[1, [2]]", '{"a": {"b": "→ é \\" \\\\"}}', "0"];

it.each<[string, Partial<NewJob>[]]>([
  ["one alone", [{}]],
  ["one alone that waits", [{ delayMs: 90_000 }]],
  ["one alone with a time and limits of its own", [{ at: AT, attempts: 3, timeoutMs: 5_000 }]],
  ["two", [{}, {}]],
  ["payloads of every sort", PAYLOADS.map((payload) => ({ payload }))],
  ["a delay that all have", [{ delayMs: 60_000 }, { delayMs: 60_000 }]],
  ["delays and times of their own", [{}, { delayMs: 90_000 }, { at: AT }, { delayMs: 30_000 }]],
  ["a time that all have", [{ at: AT }, { at: new Date(AT) }]],
  [
    "limits of their own, in turns",
    [
      { attempts: 3 },
      {},
      { timeoutMs: 5_000 },
      { attempts: 3 },
      { attempts: 3, timeoutMs: 5_000 },
      {},
    ],
  ],
  [
    "more sorts than are compared",
    Array.from({ length: 60 }, (_, n) => ({ attempts: (n % 30) + 1, payload: String(n) })),
  ],
])("%s", async (_, overs) => {
  const batch = overs.map((over) => job(over));
  await enqueue(hands.session, hands.queueId, batch);
  expect(await rows()).toEqual(batch.map(said));
});

it("headers, of some or all, with keys and without", async () => {
  const headers = ['{"event": "a"}', undefined, '{"event": "b", "routingKey": "é \\" \\\\"}'];
  const over = (n: number) => (headers[n] === undefined ? {} : { headers: headers[n] });
  const batch = headers.map((_, n) => job({ ...over(n), payload: String(n) }));
  await enqueue(hands.session, hands.queueId, batch);
  const alone = job({ headers: headers[0]! });
  await enqueue(hands.session, hands.queueId, [alone]);
  const keyed = headers.map((_, n) => job({ ...over(n), key: String(n) }));
  await enqueueKeyed(hands.session, hands.queueId, keyed);
  expect(await rows()).toEqual([...batch, alone, ...keyed].map(said));
});

it("kinds and lanes in turns", async () => {
  const batch = Array.from({ length: 9 }, (_, n) =>
    job(n % 2 ? { lane: other.lane, kind: "other", priority: 7, payload: String(n) } : {}),
  );
  await enqueue(hands.session, hands.queueId, batch);
  expect(await rows()).toEqual(batch.map(said));
});

it("keys, of some or all, whatever they are made of", async () => {
  const keys = ["a", null, 'quote "', "back\\slash", "null", "{}", "é→😀", ""];
  const batch = keys.map((key, n) => job({ key, payload: String(n) }));
  const holders = await enqueueKeyed(hands.session, hands.queueId, batch);
  expect(holders.map((holder) => holder.id)).toEqual(batch.map((one) => one.id));
  expect(await rows()).toEqual(batch.map(said));
});
