import { jest } from "@jest/globals";
import type { INestApplicationContext } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { randomUUID } from "node:crypto";
import type { SearchIndex } from "../../apps/worker/src/indexing/search-index.js";
import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The story of the index: changes of a record that wait are one job, one that comes during a run is not lost, and
// without a backend there is nothing to do.

let bench: Bench;
let apps: SampleApps;
let api: HttpApp;
let worker: INestApplicationContext;
let index: SearchIndex;

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
    const backend = await import("../../apps/worker/src/indexing/search-index.js");
    index = worker.get(backend.SearchIndex, { strict: false });
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

  it("has a change that comes while the job before it runs, whichever ends first", async () => {
    const record = randomUUID();
    const put = jest.spyOn(index, "put");
    let goOn = (): void => {};
    const over = new Promise<void>((resolve) => (goOn = resolve));
    put.mockImplementationOnce(async (document) => {
      await over;
      await index.put(document);
    });
    const first = await save(record, "whey");
    await until(() => put.mock.calls.length > 0, { what: "it has read the text" });
    const later = [await save(record, "water"), await save(record, "juice")];
    for (const { jobId } of later) await ended(jobId, "succeeded");
    expect(await bench.state(first.jobId)).toBe("running");
    expect(index.find("juice")).toEqual([record]);
    goOn();
    await ended(first.jobId, "succeeded");
    expect(index.find("juice")).toEqual([record]);
    expect(index.find("whey")).toEqual([]);
    put.mockRestore();
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
    const path = `/records/${randomUUID()}`;
    for (const body of [{}, { text: 7 }, { text: "a\0" }, { text: "a", more: 1 }])
      expect(await api.put(path, body)).toMatchObject({ status: 400 });
    expect(await bench.sql("select from samples.record where id = $1", [path.slice(-36)])).toEqual(
      [],
    );
  });
});
