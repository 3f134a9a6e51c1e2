import type { INestApplicationContext } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { randomUUID } from "node:crypto";
import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The story of the index: many changes of a record are one job, and without a backend there is nothing to do.

let bench: Bench;
let apps: SampleApps;
let api: HttpApp;
let worker: INestApplicationContext;
let index: { available: boolean; find(word: string): string[] };

beforeAll(async () => {
  bench = await Bench.open();
  apps = new SampleApps(bench.schema);
  api = await apps.api();
});
afterAll(async () => {
  await apps.close();
  await bench.close();
});

const save = async (recordId: string, text: string) =>
  (await api.put(`/records/${recordId}`, { text })).body as unknown as {
    jobId: string;
    deduplicated: boolean;
  };

const ended = async (id: string, state: string) =>
  await until(async () => (await bench.state(id)) === state, { what: `it is ${state}` });

describe("the search index", () => {
  it("is brought up to date once for many changes, with the newest text", async () => {
    const record = randomUUID();
    const first = await save(record, "tea");
    for (const text of ["coffee", "water", "cocoa"])
      expect(await save(record, text)).toEqual({ jobId: first.jobId, deduplicated: true });

    worker = await apps.worker();
    const { SearchIndex } = await import("../../apps/worker/src/indexing/search-index.js");
    index = worker.get(SearchIndex, { strict: false });
    await ended(first.jobId, "succeeded");
    expect(index.find("cocoa")).toEqual([record]);
    expect(index.find("tea")).toEqual([]);
  });

  it("makes a job of its own for a change that comes later", async () => {
    const record = randomUUID();
    const first = await save(record, "tea");
    await ended(first.jobId, "succeeded");
    const second = await save(record, "milk");
    expect(second.deduplicated).toBe(false);
    await ended(second.jobId, "succeeded");
    expect(index.find("milk")).toEqual([record]);
  });

  it("is skipped with its reason while the backend is away", async () => {
    index.available = false;
    const { jobId } = await save(randomUUID(), "lost");
    await ended(jobId, "skipped");
    expect((await api.app.get(JobQueue).get(jobId))?.result).toEqual({
      reason: "the search index is away",
    });
    expect(index.find("lost")).toEqual([]);
    index.available = true;
  });

  it("answers 400 for what is no record", async () => {
    expect(await api.put("/records/7", { text: "a" })).toMatchObject({ status: 400 });
    expect(await api.put(`/records/${randomUUID()}`, {})).toMatchObject({ status: 400 });
  });
});
