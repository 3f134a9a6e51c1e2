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

const ended = async (id: string, state: string) =>
  await until(async () => (await bench.state(id)) === state, { what: `it is ${state}` });

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
    const put = jest.spyOn(keywords, "put");
    let goOn = (): void => {};
    const over = new Promise<void>((resolve) => (goOn = resolve));
    put.mockImplementationOnce(async (document) => {
      await over;
      await keywords.put(document);
    });
    const first = await save(record, "whey");
    await until(() => put.mock.calls.length > 0, { what: "it has read the text" });
    const later = [await save(record, "water"), await save(record, "juice")];
    for (const saved of later) await ended(saved[KEYWORD]!.jobId, "succeeded");
    expect(await bench.state(first[KEYWORD]!.jobId)).toBe("running");
    expect(keywords.find("juice")).toEqual([record]);
    goOn();
    await ended(first[KEYWORD]!.jobId, "succeeded");
    expect(keywords.find("juice")).toEqual([record]);
    expect(keywords.find("whey")).toEqual([]);
    put.mockRestore();
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
