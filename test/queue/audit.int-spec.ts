import { JobAudit, JobRequests } from "nestjs-pg-jobs";
import { firstRelease } from "../support/first-release.js";
import { Bench } from "../support/harness.js";

// What operators did, written before it is done; and requests that may be repeated.

let bench: Bench;
let audit: JobAudit;
let requests: JobRequests;
beforeAll(async () => {
  bench = await Bench.open();
  const app = await bench.app([bench.root()]);
  audit = app.get(JobAudit);
  requests = app.get(JobRequests);
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.audit, jobs.request")));

const deed = (over = {}) => ({
  operator: "ada",
  role: "operator",
  action: "job.requeue",
  target: "1-1",
  why: null,
  details: {},
  ...over,
});

describe("the audit", () => {
  it("has a deed before it is over, and how it ended, once", async () => {
    const id = await audit.begin(deed({ why: "a fix is out", details: { edited: true } }));
    const [begun] = (await audit.list()).items;
    expect(begun).toEqual({
      ...deed({ why: "a fix is out", details: { edited: true } }),
      id,
      at: expect.any(String),
      outcome: null,
      endedAt: null,
    });
    await audit.end(id, "queued");
    await audit.end(id, "never mind");
    expect((await audit.list()).items).toEqual([
      { ...begun, outcome: "queued", endedAt: expect.any(String) },
    ]);
  });

  it("is not changed any more once it has an outcome, whoever may say one", async () => {
    const id = await audit.begin(deed());
    const say = async (outcome: string | null) =>
      await bench.sql("update jobs.audit set outcome = $2, ended_at = now() where id = $1", [
        id,
        outcome,
      ]);
    await say("queued");
    for (const other of ["dead", null])
      await expect(say(other)).rejects.toMatchObject({
        code: "23000",
        message: `audit: expected an entry that has not ended, found ${id} with the outcome "queued"`,
      });
    expect((await audit.list()).items).toMatchObject([{ id, outcome: "queued" }]);
  });

  it("has of long details their beginning", async () => {
    const said = { limit: Array.from({ length: 2_000 }, (_, n) => ({ max: n, key: `"k${n}"` })) };
    await audit.begin(deed({ details: said }));
    await audit.begin(deed({ details: { why: "x".repeat(8_000) } }));
    const [whole, cut] = (await audit.list()).items;
    expect(whole!.details).toEqual({ why: "x".repeat(8_000) });
    expect(cut!.details).toEqual({
      cut: expect.stringMatching(/^\{"limit":\[\{"max":0,.{4000,4090}…$/),
      characters: JSON.stringify(said).length,
    });
    const [{ bytes }] = (await bench.sql<{ bytes: number }>(
      "select max(octet_length(details::text)) as bytes from jobs.audit",
    )) as [{ bytes: number }];
    expect(bytes).toBeLessThan(8_192);
  });

  it("is listed newest first, in pages, by who, what and to what", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 6; n++)
      ids.unshift(
        await audit.begin(
          deed({ operator: n % 2 ? "ada" : "bob", target: `1-${n}`, action: n < 3 ? "a" : "b" }),
        ),
      );
    const idsOf = async (...call: Parameters<JobAudit["list"]>) => {
      const { items, next } = await audit.list(...call);
      return { ids: items.map(({ id }) => id), next };
    };
    expect(await idsOf()).toEqual({ ids, next: null });
    const first = await idsOf({}, { limit: 4 });
    expect(first).toEqual({ ids: ids.slice(0, 4), next: ids[3] });
    expect(await idsOf({}, { limit: 4, after: first.next! })).toEqual({
      ids: ids.slice(4),
      next: null,
    });
    expect((await idsOf({ operator: "bob" })).ids).toEqual([ids[1], ids[3], ids[5]]);
    expect((await idsOf({ operator: "bob", action: "a" })).ids).toEqual([ids[3], ids[5]]);
    expect((await idsOf({ target: "1-4" })).ids).toEqual([ids[1]]);
    expect(await idsOf({ operator: "nobody" })).toEqual({ ids: [], next: null });
  });

  it("looks at 20,000 entries a page, and says where to go on", async () => {
    await audit.begin(deed({ operator: "long ago" }));
    await bench.sql(
      `insert into jobs.audit (operator, role, action, target) select 'ada', 'admin', 'a', 't' from generate_series(1, 20000)`,
    );
    const first = await audit.list({ operator: "long ago" });
    expect(first).toEqual({ items: [], next: expect.any(String) });
    const second = await audit.list({ operator: "long ago" }, { after: first.next! });
    expect(second).toMatchObject({ items: [{ operator: "long ago" }], next: null });
  });

  it.each<[unknown, unknown, RegExp]>([
    [{ operatr: "x" }, {}, /operatr: unknown option, did you mean operator/],
    [{ operator: "" }, {}, /query\.operator: expected 1 to 1,000 characters/],
    [{ target: "\0" }, {}, /query\.target/],
    [{}, { limit: 201 }, /page\.limit: expected an integer 1\.\.200/],
    [{}, { after: "x" }, /page\.after: expected the next/],
  ])("refuses %j %j", async (query, page, message) => {
    await expect(audit.list(query as never, page as never)).rejects.toThrow(message);
  });
});

describe("a request that is repeated", () => {
  const key = { operator: "ada", key: "k" };

  it("is done once, and answered the same from then on", async () => {
    const taken = await requests.take(key, "asked");
    expect(taken).toEqual({ what: "mine", fence: expect.any(String) });
    expect(await requests.take(key, "asked")).toEqual({ what: "busy" });
    expect(await requests.take(key, "something else")).toEqual({ what: "other" });
    await requests.answer(key, (taken as { fence: string }).fence, 200, { id: "1-1" });
    const again = { what: "answered", status: 200, body: { id: "1-1" } };
    expect(await requests.take(key, "asked")).toEqual(again);
    expect(await requests.take(key, "something else")).toEqual({ what: "other" });
    expect(await requests.take({ ...key, operator: "bob" }, "asked")).toMatchObject({
      what: "mine",
    });
  });

  it("by many at once is done by one", async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => requests.take(key, "asked")));
    expect(all.filter(({ what }) => what === "mine")).toHaveLength(1);
    expect(all.filter(({ what }) => what === "busy")).toHaveLength(19);
  });

  it("may be tried again when it was not done", async () => {
    const { fence } = (await requests.take(key, "asked")) as { fence: string };
    await requests.drop(key, fence);
    expect(await requests.take(key, "another")).toMatchObject({ what: "mine" });
  });

  it("of a process that died is never done again, and that process may still say how it ended", async () => {
    const { fence } = (await requests.take(key, "asked")) as { fence: string };
    const later = async (by: string) =>
      await bench.sql("update jobs.request set began_at = began_at - $1::interval", [by]);
    await later("290 s");
    expect(await requests.take(key, "asked")).toEqual({ what: "busy" });
    await later("11 s");
    expect(await requests.take(key, "asked")).toEqual({ what: "silent" });
    expect(await requests.take(key, "something else")).toEqual({ what: "other" });
    await later("-301 s");
    await requests.answer(key, fence, 204, undefined);
    await later("301 s");
    const answered = { what: "answered", status: 204, body: null };
    expect(await requests.take(key, "asked")).toEqual(answered);
  });

  it("of which nobody knows any more is a new one, and the first has no say in it", async () => {
    const { fence } = (await requests.take(key, "asked")) as { fence: string };
    await bench.sql("update jobs.request set began_at = began_at - interval '25 h'");
    expect(await requests.take(key, "asked")).toMatchObject({ what: "mine" });
    await requests.drop(key, fence);
    await requests.answer(key, fence, 500, null);
    expect(await requests.take(key, "asked")).toEqual({ what: "busy" });
  });

  it("is forgotten after a day, some with each new one", async () => {
    for (let n = 0; n < 60; n++) await requests.take({ operator: "ada", key: `old ${n}` }, "x");
    const { fence } = (await requests.take(key, "asked")) as { fence: string };
    await requests.answer(key, fence, 200, 1);
    await bench.sql("update jobs.request set began_at = began_at - interval '25 h'");
    expect(await requests.take(key, "something else")).toMatchObject({ what: "mine" });
    expect(await bench.sql("select 1 from jobs.request")).toHaveLength(11);
    expect(await requests.take({ operator: "ada", key: "old 59" }, "y")).toMatchObject({
      what: "mine",
    });
    expect(await bench.sql("select 1 from jobs.request")).toHaveLength(2);
  });
});

it("both say that the schema is older", async () => {
  const old = await firstRelease();
  try {
    const app = await old.app([old.root()]);
    for (const call of [
      () => app.get(JobAudit).list(),
      () => app.get(JobAudit).begin(deed()),
      () => app.get(JobRequests).take({ operator: "a", key: "k" }, "x"),
    ])
      await expect(call()).rejects.toMatchObject({ code: "SCHEMA_NOT_READY" });
  } finally {
    await old.close();
  }
});
