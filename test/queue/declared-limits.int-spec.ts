import { Database } from "../../libs/jobs/src/pg/database.js";
import { DeclaredLimits } from "../../libs/jobs/src/queue/declared-limits.js";
import { rulesOf } from "../../libs/jobs/src/store/limits/rules.js";
import { Store } from "../../libs/jobs/src/store/store.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";

// What the code of several releases says of limits, while both are at work and after.

let bench: Bench;
let hands: Hands;
let store: Store;
let database: Database;
beforeEach(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  database = new Database({ connectionString: bench.url }, bench.schema, 4);
  store = new Store(database);
});
afterEach(async () => {
  await database.close();
  await bench.close();
});

/** A worker whose code says so. */
const worker = (max?: number, service = "shop") =>
  new DeclaredLimits(
    max === undefined
      ? []
      : [{ queue: "default", rules: [{ keyPath: "", max, rate: null, rateMs: null }] }],
    { store, service, changed: () => undefined },
  );
const starts = async (max?: number, service?: string) => {
  const started = worker(max, service);
  await started.declare(hands.queueId, "default");
  return started;
};
const max = async () => (await rulesOf(store, [hands.queueId])).map((rule) => rule.max);
/** Nobody has said it for a while. */
const later = async () =>
  await bench.sql("update jobs.limit_said set said_at = now() - interval '3 minutes'");

it("who says nothing takes nothing away while others say it; once they are gone it does", async () => {
  await starts(2);
  const none = await starts();
  await none.keep();
  expect(await max()).toEqual([2]);
  await later();
  await none.keep();
  expect(await max()).toEqual([2]); // said a moment ago
  await starts();
  expect(await max()).toEqual([]);
});

it("who came last holds while it lives; then those that live", async () => {
  const newer = await starts(2);
  const older = await starts(9);
  await older.keep();
  await newer.keep();
  expect(await max()).toEqual([9]);
  await later();
  const replica = await starts(2);
  await replica.keep();
  expect(await max()).toEqual([2]);
});

it("of which each sees to it by itself, once a minute", async () => {
  const newer = await starts(2);
  await starts(9);
  await later();
  await newer.keep();
  expect(await max()).toEqual([2]);
});

it("another service keeps what it says, and takes nothing away", async () => {
  await starts(2, "shop");
  await later();
  const other = await starts(undefined, "crm");
  await other.keep();
  expect(await max()).toEqual([2]);
});

it("who says it again is heard: it is not forgotten", async () => {
  const one = await starts(2);
  await later();
  await one.keep();
  const none = await starts();
  await none.keep();
  expect(await max()).toEqual([2]);
});

it("what a call has changed stays", async () => {
  const one = await starts(2);
  await bench.sql("update jobs.limit_rule set max = 5");
  await one.keep();
  await starts(2);
  expect(await max()).toEqual([5]);
});

it("what somebody takes away while others say it is said again", async () => {
  const one = await starts(2);
  await bench.sql("delete from jobs.limit_said");
  await bench.sql("delete from jobs.limit_rule");
  await one.keep();
  expect(await max()).toEqual([2]);
});

it("two that say different things do not take turns", async () => {
  const gone = await starts(3);
  const [five, nine] = [await starts(5), await starts(9)];
  await bench.sql("update jobs.limit_said set declared = '[]'");
  await later();
  await five.keep();
  expect(await max()).toEqual([5]);
  await nine.keep();
  expect(await max()).toEqual([5]);
  expect(gone).toBeDefined();
});
