import { jest } from "@jest/globals";
import type { INestApplicationContext } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { randomUUID } from "node:crypto";
import type { KeywordIndex } from "../../apps/worker/src/indexing/keyword-index.js";
import type { VectorIndex } from "../../apps/worker/src/indexing/vector-index.js";
import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The story of two indexes: a record that changes is fanned out to those that its sort asks for; changes that wait are one
// delivery each, one that comes during a run is not lost, and what one index does is no concern of the other.

const KEYWORD = "index.keyword";
const VECTOR = "index.vector";

let bench: Bench;
let apps: SampleApps;
let api: HttpApp;
let keywords: KeywordIndex;
let vectors: VectorIndex;

async function startWorker(): Promise<INestApplicationContext> {
  const worker = await apps.worker();
  const { KeywordIndex } = await import("../../apps/worker/src/indexing/keyword-index.js");
  const { VectorIndex } = await import("../../apps/worker/src/indexing/vector-index.js");
  keywords = worker.get(KeywordIndex, { strict: false });
  vectors = worker.get(VectorIndex, { strict: false });
  return worker;
}

beforeAll(async () => {
  bench = await Bench.open();
  apps = new SampleApps(bench.schema);
  api = await apps.api();
  // Subscribers are known from their first start on.
  const worker = await startWorker();
  await until(async () => (await bench.sql("select from jobs.subscription")).length === 2, {
    what: "both have subscribed",
  });
  await worker.close();
});
afterAll(async () => {
  await apps.close();
  await bench.close();
});

type Saved = Record<string, { jobId: string; deduplicated: boolean }>;
const save = async (recordId: string, text: string, sort?: string) =>
  (await api.put(`/records/${recordId}`, { text, ...(sort ? { sort } : {}) }))
    .body as unknown as Saved;

/** How many there are of a record, over or not. */
const deliveries = async (record: string) => {
  const rows = await bench.sql<{ kind: string; count: number }>(
    "select kind, count(*)::int from jobs.job_status where payload ->> 'recordId' = $1 group by kind",
    [record],
  );
  return Object.fromEntries(rows.map(({ kind, count }) => [kind, count]));
};

const ended = async (id: string, state: string) =>
  await until(async () => (await bench.state(id)) === state, { what: `it is ${state}` });

const held: (() => void)[] = [];
/** Keeps a `put` from ending until it is let go, the first one or all that come. */
function hold(index: KeywordIndex | VectorIndex, which: "first" | "all") {
  const works = index.put.bind(index);
  const put = jest.spyOn(index, "put");
  let letGo = (): void => {};
  const over = new Promise<void>((resolve) => (letGo = resolve));
  held.push(letGo);
  const waits: typeof works = async (document) => {
    await over;
    await works(document);
  };
  if (which === "first") put.mockImplementationOnce(waits);
  else put.mockImplementation(waits);
  const holds = () => put.mock.calls.length > 0;
  return { letGo, isHeld: async () => await until(holds, { what: "it has read the record" }) };
}
afterEach(() => {
  for (const letGo of held.splice(0)) letGo();
  jest.restoreAllMocks();
});

describe("the indexes", () => {
  it("are brought up to date once for many changes, with the newest text", async () => {
    const record = randomUUID();
    const first = await save(record, "tea");
    expect(Object.keys(first).toSorted()).toEqual([KEYWORD, VECTOR]);
    for (const text of ["coffee", "water", "cocoa"])
      expect(await save(record, text)).toEqual({
        [KEYWORD]: { jobId: first[KEYWORD]!.jobId, deduplicated: true },
        [VECTOR]: { jobId: first[VECTOR]!.jobId, deduplicated: true },
      });

    await startWorker();
    await ended(first[KEYWORD]!.jobId, "succeeded");
    await ended(first[VECTOR]!.jobId, "succeeded");
    expect(keywords.find("cocoa")).toEqual([record]);
    expect(keywords.find("tea")).toEqual([]);
    expect(vectors.nearest("cacao")).toBe(record);
  });

  it("get what the sort of the record asks for", async () => {
    const record = randomUUID();
    const saved = await save(record, "a line of a log", "log");
    expect(Object.keys(saved)).toEqual([KEYWORD]);
    await ended(saved[KEYWORD]!.jobId, "succeeded");
    expect(keywords.find("line of a log")).toEqual([record]);
    expect(vectors.has(record)).toBe(false);
  });

  it("get a delivery of their own for a change that comes later", async () => {
    const record = randomUUID();
    const first = await save(record, "tea");
    for (const { jobId } of Object.values(first)) await ended(jobId, "succeeded");
    const second = await save(record, "milk");
    for (const { jobId, deduplicated } of Object.values(second)) {
      expect(deduplicated).toBe(false);
      await ended(jobId, "succeeded");
    }
    expect(keywords.find("milk")).toEqual([record]);
  });

  it("have a change that comes while a delivery before it runs, whichever ends first", async () => {
    const record = randomUUID();
    const { letGo, isHeld } = hold(keywords, "first");
    const first = await save(record, "whey");
    await isHeld();
    await ended(first[VECTOR]!.jobId, "succeeded");
    for (const text of ["water", "juice"]) {
      const saved = await save(record, text);
      for (const { jobId } of Object.values(saved)) await ended(jobId, "succeeded");
    }
    // What one index does makes no delivery of the other.
    expect(await deliveries(record)).toEqual({ [KEYWORD]: 3, [VECTOR]: 3 });
    expect(await bench.state(first[KEYWORD]!.jobId)).toBe("running");
    expect(keywords.find("juice")).toEqual([record]);
    letGo();
    await ended(first[KEYWORD]!.jobId, "succeeded");
    expect(keywords.find("juice")).toEqual([record]);
    expect(keywords.find("whey")).toEqual([]);
  });

  it("that hang get no more deliveries of a record than are claimed, and one that waits", async () => {
    const record = randomUUID();
    const { letGo } = hold(vectors, "all");
    const last = { text: "", saved: {} as Saved };
    for (let n = 0; n < 20; n++) {
      last.text = `hangs ${n}`;
      last.saved = await save(record, last.text);
      await ended(last.saved[KEYWORD]!.jobId, "succeeded");
      expect(keywords.find(last.text)).toEqual([record]);
    }
    const { [KEYWORD]: keyword, [VECTOR]: vector } = await deliveries(record);
    expect(keyword).toBe(20);
    // Five run, as many are claimed ahead, and one waits.
    expect(vector).toBeLessThanOrEqual(11);
    letGo();
    await ended(last.saved[VECTOR]!.jobId, "succeeded");
  });

  it("that had a record of another sort are told, and take it out", async () => {
    const record = randomUUID();
    const first = await save(record, "zzz", "note");
    await ended(first[VECTOR]!.jobId, "succeeded");
    expect(vectors.nearest("zz")).toBe(record);
    const second = await save(record, "yyy", "log");
    expect(Object.keys(second).toSorted()).toEqual([KEYWORD, VECTOR]);
    for (const { jobId } of Object.values(second)) await ended(jobId, "succeeded");
    expect(vectors.has(record)).toBe(false);
    expect(vectors.nearest("zz")).not.toBe(record);
    expect(keywords.find("yyy")).toEqual([record]);
    expect(await deliveries(record)).toEqual({ [KEYWORD]: 2, [VECTOR]: 2 });
    // It is no concern of theirs any more, until it is a note again.
    expect(Object.keys(await save(record, "xxx", "log"))).toEqual([KEYWORD]);
    const third = await save(record, "www", "note");
    await ended(third[VECTOR]!.jobId, "succeeded");
    expect(vectors.nearest("ww")).toBe(record);
  });

  it("take it out for good, though a delivery from before ends later", async () => {
    const record = randomUUID();
    const { letGo, isHeld } = hold(vectors, "first");
    const first = await save(record, "qqq", "note");
    await isHeld();
    const second = await save(record, "qqq", "log");
    await ended(second[VECTOR]!.jobId, "succeeded");
    letGo();
    await ended(first[VECTOR]!.jobId, "succeeded");
    expect(vectors.has(record)).toBe(false);
  });

  it("are told of both sorts of a new record that two save at once", async () => {
    const record = randomUUID();
    const answers = await Promise.all([save(record, "ppp", "note"), save(record, "ooo", "log")]);
    const ids = new Set(answers.flatMap((saved) => Object.values(saved).map(({ jobId }) => jobId)));
    for (const id of ids) await ended(id, "succeeded");
    const [row] = await bench.sql<{ text: string; sort: string }>(
      "select text, sort from samples.record where id = $1",
      [record],
    );
    expect(keywords.find(row!.text)).toContain(record);
    expect(vectors.has(record)).toBe(row!.sort === "note");
  });

  it("fail and are tried again each on its own; a dead delivery is sent again alone", async () => {
    vectors.trouble = new Error("the model is away");
    const record = randomUUID();
    const saved = await save(record, "barley");
    await ended(saved[KEYWORD]!.jobId, "succeeded");
    expect(keywords.find("barley")).toEqual([record]);
    const vector = saved[VECTOR]!.jobId;
    const jobs = api.app.get(JobQueue);
    await until(async () => ((await jobs.get(vector))?.failures ?? 0) >= 1, {
      what: "it has failed",
    });
    await ended(vector, "dead");
    expect((await jobs.get(vector))?.lastError).toBe("the model is away");
    vectors.trouble = undefined;
    expect(await jobs.requeue(vector)).toBe("queued");
    await ended(vector, "succeeded");
    expect(vectors.has(record)).toBe(true);
    expect((await jobs.get(saved[KEYWORD]!.jobId))?.attempt).toBe(1);
  });

  it("are skipped with their reason while the backend is away", async () => {
    keywords.available = false;
    const saved = await save(randomUUID(), "lost");
    await ended(saved[KEYWORD]!.jobId, "skipped");
    expect((await api.app.get(JobQueue).get(saved[KEYWORD]!.jobId))?.result).toEqual({
      reason: "the keyword index is away",
    });
    await ended(saved[VECTOR]!.jobId, "succeeded");
    expect(keywords.find("lost")).toEqual([]);
    keywords.available = true;
  });

  it("answers 400 for what is no record", async () => {
    expect(await api.put("/records/7", { text: "a" })).toMatchObject({ status: 400 });
    const path = `/records/${randomUUID()}`;
    for (const body of [
      {},
      { text: 7 },
      { text: "a\0" },
      { text: "a", more: 1 },
      { text: "a", sort: "x" },
    ])
      expect(await api.put(path, body)).toMatchObject({ status: 400 });
    expect(await bench.sql("select from samples.record where id = $1", [path.slice(-36)])).toEqual(
      [],
    );
  });
});
