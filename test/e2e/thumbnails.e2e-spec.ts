import { Logger } from "@nestjs/common";
import { jest } from "@jest/globals";
import { JobInspector, JobQueue } from "nestjs-pg-jobs";
import { createHash } from "node:crypto";
import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps, asAdmin } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The story of the thumbnails: limits and delay from the environment, dead letters with all that a person needs.

let bench: Bench;
let apps: SampleApps;
let api: HttpApp;
let admin: HttpApp;
let inspector: JobInspector;
const lines: unknown[][] = [];

beforeAll(async () => {
  bench = await Bench.open();
  Object.assign(process.env, { THUMBNAIL_ATTEMPTS: "2", THUMBNAIL_RETRY_DELAY: "1m" });
  apps = new SampleApps(bench.schema);
  api = await apps.api();
  admin = await apps.admin();
  inspector = api.app.get(JobInspector);
  jest
    .spyOn(Logger.prototype, "log")
    .mockImplementation((...said: unknown[]) => void lines.push(said));
  await apps.worker();
});
afterAll(async () => {
  jest.restoreAllMocks();
  await apps.close();
  await bench.close();
});

/** Of these URLs one in ten leads to a broken image. */
const url = (broken: boolean, from = 0): string => {
  for (let n = from; ; n++) {
    const text = `https://example.com/${n}.png`;
    if ((createHash("sha256").update(text).digest()[0]! % 10 === 0) === broken) return text;
  }
};
const post = async (imageUrl: string) =>
  (await api.post("/thumbnails", { imageUrl })).body.jobId as unknown as string;

const ended = async (id: string, state: string) =>
  await until(async () => (await bench.state(id)) === state, { what: `${id} is ${state}` });

/** Fails as often as the environment lets it. */
async function dies(imageUrl: string): Promise<string> {
  const id = await post(imageUrl);
  await until(
    async () => {
      const [row] = await bench.sql<{ failures: number; wait: number }>(
        "select failures, extract(epoch from run_at - now())::float8 as wait from jobs.job_status where id = $1",
        [id],
      );
      return row!.failures === 1 && row!.wait > 50 && row!.wait <= 60.5;
    },
    { what: "it is retried in the time that the environment says" },
  );
  await bench.age(id, "1 minute");
  await ended(id, "dead");
  return id;
}

describe("the thumbnails", () => {
  it("are made, and the log says which attempt it was", async () => {
    const id = await post(url(false));
    await ended(id, "succeeded");
    expect((await api.app.get(JobQueue).get(id))?.result).toEqual({
      width: expect.any(Number),
      height: expect.any(Number),
    });
    expect(lines).toContainEqual([
      "Makes a thumbnail",
      expect.objectContaining({ id, attempt: "1/2", kind: "thumbnail.make" }),
    ]);
  });

  it("are dead letters after the attempts of the environment, with input, times and stack traces", async () => {
    const imageUrl = url(true);
    const id = await dies(imageUrl);
    const { body } = await admin.get(`/admin/jobs/${id}`, asAdmin);
    expect(body).toMatchObject({ state: "dead", failures: 2, payload: { imageUrl } });
    const errors = body.errors as unknown as { attempt: number; failedAt: string; error: object }[];
    expect(errors.map(({ attempt }) => attempt)).toEqual([1, 2]);
    for (const { error, failedAt } of errors) {
      expect(Date.parse(failedAt)).toBeGreaterThan(0);
      expect(error).toMatchObject({
        name: "ImageBrokenError",
        stack: expect.stringContaining("decode"),
        cause: { name: "RangeError" },
      });
    }
    expect(lines).toContainEqual([
      "Makes a thumbnail",
      expect.objectContaining({ id, attempt: "2/2" }),
    ]);
  });

  it("are counted by kind, and the failures of the last hour are listed", async () => {
    const old = await dies(url(true, 1_000));
    const fresh = await dies(url(true, 2_000));
    await bench.age(old, "2 hours");
    const [counts] = (await inspector.counts()).filter(({ kind }) => kind === "thumbnail.make");
    expect(counts).toMatchObject({ queue: "media", unfinished: 0, succeeded: 1, dead: 3 });
    const { items } = await inspector.list({
      kind: "thumbnail.make",
      state: "dead",
      finishedSince: new Date(Date.now() - 3_600_000),
    });
    const ids = items.map(({ id }) => id);
    expect(ids).toContain(fresh);
    expect(ids).not.toContain(old);
  });

  it("are archived when they have been dead for 30 days, to be seen and sent again all the same", async () => {
    const [young, old] = [await dies(url(true, 3_000)), await dies(url(true, 4_000))];
    await bench.age(young, "29 days");
    await bench.age(old, "31 days");
    await bench.sql("update jobs.chore set due_at = now() where name = 'retention'");
    const number = (id: string) => Number(id.split("-")[1]);
    const archived = async () =>
      (await bench.sql<{ id: string }>("select id from jobs.dead_archive")).map(({ id }) =>
        Number(id),
      );
    await until(async () => (await archived()).includes(number(old)), { what: "it is archived" });
    expect(await archived()).not.toContain(number(young));
    expect(await bench.sql("select from jobs.dead where id = $1", [number(old)])).toEqual([]);
    expect(await inspector.get(old)).toMatchObject({ state: "dead", failures: 2 });
    const [counts] = (await inspector.counts()).filter(({ kind }) => kind === "thumbnail.make");
    expect(counts).toMatchObject({ archived: 1 });

    const imageUrl = url(false, 9);
    expect(await api.app.get(JobQueue).requeue(old, { payload: { imageUrl } })).toBe("queued");
    await ended(old, "succeeded");
    expect(await archived()).toEqual([]);
  });
});
