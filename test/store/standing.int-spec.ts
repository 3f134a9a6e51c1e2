import { type NamedLane, StaleLanesError } from "../../libs/jobs/src/store/queues/standing.js";
import {
  enqueue,
  enqueueAgain,
  enqueueKeyed,
} from "../../libs/jobs/src/store/transitions/enqueue.js";
import type { NewJob } from "../../libs/jobs/src/store/transitions/new-jobs.js";
import { enqueueFenced } from "../../libs/jobs/src/store/transitions/enqueue-fenced.js";
import {
  enqueueUnique,
  enqueueUniqueFenced,
} from "../../libs/jobs/src/store/transitions/enqueue-unique.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";

// An insert holds only if the queue and the lanes are what they are known for.

let bench: Bench;
let hands: Hands;
let other: Hands;
let parent: { queueId: number; id: string; attempt: number; worker: number };
let ids = 1_000_000;
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  other = await Hands.open(bench, "default", "other", 7);
  await Hands.open(bench, "elsewhere");
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  await bench.sql("truncate jobs.job, jobs.dedup");
  const worker = await hands.worker();
  await hands.add();
  const [claim] = await hands.claim(worker);
  parent = { queueId: hands.queueId, id: claim!.id, attempt: 1, worker };
});

const job = (over: Partial<NewJob> = {}): NewJob => hands.job({ id: String(++ids), ...over });

const unique = { windowMs: 60_000, onConflict: "keep" } as const;
const first = (batch: NewJob[]) => batch.at(-1)!;
type Insert = (queueId: number, batch: NewJob[]) => Promise<unknown>;
const INSERTS: Record<string, Insert> = {
  plain: (queueId, batch) => enqueue(hands.session, queueId, batch),
  one: (queueId, batch) => enqueue(hands.session, queueId, [first(batch)]),
  alike: (queueId, batch) =>
    enqueue(hands.session, queueId, [first(batch), { ...first(batch), id: String(++ids) }]),
  keyed: (queueId, batch) => enqueueKeyed(hands.session, queueId, batch.map(withKey)),
  "sent again": (queueId, batch) => enqueueAgain(hands.session, queueId, batch),
  unique: (queueId, batch) =>
    enqueueUnique(
      hands.session,
      queueId,
      batch.map((one) => ({ ...withKey(one), unique })),
    ),
  fenced: (queueId, batch) => enqueueFenced(hands.session, parent, queueId, first(batch)),
  "unique, fenced": (queueId, batch) =>
    enqueueUniqueFenced(hands.session, parent, queueId, { ...withKey(first(batch)), unique }),
};
const withKey = (one: NewJob): NewJob => ({ ...one, key: `k${one.id}` });

const count = async () => {
  const [row] = await bench.sql<{ n: number }>(
    "select (select count(*) from jobs.job where id > 1000000)::int + (select count(*) from jobs.dedup)::int as n",
  );
  return row!.n;
};

const WRONG: Record<string, () => Partial<NamedLane> & { queueId?: number }> = {
  "a lane of another kind": () => ({ lane: other.lane, priority: 7 }),
  "a lane of another priority": () => ({ priority: 1 }),
  "a lane that does not exist": () => ({ lane: 99 }),
  "a queue of another name": () => ({ queue: "elsewhere" }),
  "a queue that does not exist": () => ({ queueId: 99 }),
};

describe.each(Object.keys(INSERTS))("%s", (name) => {
  const insert = INSERTS[name]!;

  it.each(Object.keys(WRONG))("nothing is inserted into %s", async (wrong) => {
    const { queueId = hands.queueId, queue = "default", ...lane } = WRONG[wrong]!();
    const batch = [job({ queue }), job({ queue, ...lane })];
    await expect(insert(queueId, batch)).rejects.toThrow(StaleLanesError);
    expect(await count()).toBe(0);
  });

  it("what stands is inserted, in several lanes too", async () => {
    const batch = [
      job(),
      job({ lane: other.lane, kind: "other", priority: 7 }),
      job({ lane: other.lane, kind: "other", priority: 7 }),
      job(),
    ];
    await insert(hands.queueId, batch);
    expect(await count()).toBeGreaterThan(0);
    const misplaced = await bench.sql(
      "select 1 from jobs.job j join jobs.lane l on l.queue_id = j.queue_id and l.id = j.lane where l.kind <> j.kind",
    );
    expect(misplaced).toEqual([]);
  });

  it("what was looked up by a younger snapshot is not checked", async () => {
    await insert(hands.queueId, [job({ lane: 99, looked: true })]);
    expect(await count()).toBeGreaterThan(0);
  });
});

it("two queues that are known by one number are not sent at all", async () => {
  const batch = [job(), job({ queue: "elsewhere" })];
  await expect(enqueue(hands.session, hands.queueId, batch)).rejects.toThrow(StaleLanesError);
});
