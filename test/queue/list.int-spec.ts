import { jest } from "@jest/globals";
import {
  JobInspector,
  JobQueue,
  type JobFilter,
  type JobPage,
  type JobSummary,
  defineJob,
  fixed,
} from "nestjs-pg-jobs";
import * as actual from "../../libs/jobs/src/pg/statement.js";
import type { ParsedJobFilter } from "../../libs/jobs/src/job/job-filter.js";
import { parseList } from "../../libs/jobs/src/job/job-filter.js";
import { firstRelease } from "../support/first-release.js";
import { handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// Lists by filter and page: what they find, in which order, and how much they look at.

let bench: Bench;
let inspector: JobInspector;
beforeAll(async () => {
  bench = await Bench.open();
  inspector = (await bench.app([bench.root()])).get(JobInspector);
});
afterAll(async () => await bench.close());

async function walk(filter: JobFilter, limit: number): Promise<{ ids: string[]; pages: number }> {
  const ids: string[] = [];
  let page: JobPage | undefined;
  let pages = 0;
  do {
    page = await inspector.list(filter, page?.next ? { limit, after: page.next } : { limit });
    ids.push(...page.items.map(({ id }) => id));
    expect(page.items.length).toBeLessThanOrEqual(limit);
    expect(pages++).toBeLessThan(500);
  } while (page.next !== null);
  return { ids, pages };
}

describe("over jobs in every state", () => {
  beforeAll(async () => {
    const all = [
      await Hands.open(bench, "a", "x"),
      await Hands.open(bench, "a", "y", 5),
      await Hands.open(bench, "b", "x", -3),
    ];
    for (const hands of Array.from({ length: 40 }).flatMap(() => all)) await hands.addMany(2);
    // Whatever the way there, the rows are those of jobs in that state.
    await bench.sql(
      `with gone as (delete from jobs.job where id % 5 in (1, 2, 3) returning id, run_at, attempt, queue_id, lane, kind, key, payload)
       insert into jobs.done (id, created_at, run_at, finished_at, attempt, queue_id, failures, lane, generation, state, kind, key, payload)
       select id, now() - id % 50 * interval '1 hour', run_at, now() + (id % 4) * interval '1 day', 1, queue_id, 0, lane, 1, id % 5, kind, key, payload from gone`,
    );
    await bench.sql(
      `with gone as (delete from jobs.job where id % 5 = 4 returning id, run_at, attempt, queue_id, lane, kind, key, payload)
       insert into jobs.dead (id, created_at, run_at, finished_at, attempt, queue_id, failures, crashes, lane, generation, kind, key, payload, reason, error)
       select id, now() - id % 50 * interval '1 hour', run_at, now() - id % 9 * interval '1 hour', 1, queue_id, 1, 0, lane, 1, kind, key, payload, 'exhausted', '{"message":"boom"}' from gone`,
    );
    await bench.sql(
      `update jobs.job set lease_until = now() + interval '1 hour', worker = 1, attempt = 1 where id % 2 = 0`,
    );
    await bench.sql(
      `with old as (delete from jobs.dead where id % 2 = 0
         returning id, created_at, run_at, finished_at, attempt, queue_id, failures, crashes, lane, generation, kind, key, payload, reason, error)
       insert into jobs.dead_archive (id, created_at, run_at, finished_at, attempt, queue_id, failures, crashes, lane, generation, kind, key, payload, reason, error, errors)
       select id, created_at, run_at, finished_at, attempt, queue_id, failures, crashes, lane, generation, kind, key, payload, reason, error, '[]' from old`,
    );
    await bench.sql("update jobs.job set run_at = now() + interval '1 hour' where id % 4 < 2");
    await bench.sql("update jobs.job set failures = 2 where id % 8 in (1, 3, 4)");
    await bench.sql("update jobs.done set key = 'k' || id % 5 where id % 3 = 0");
    await bench.sql("update jobs.dead set key = 'k' || id % 5 where id % 3 = 0");
    await bench.sql(
      "update jobs.job set key = 'k' || id % 3 where id in (select min(id) from jobs.job group by queue_id, kind)",
    );
  });

  const oracle = async (filter: JobFilter): Promise<string[]> => {
    const rows = await bench.sql<{ id: string }>(
      `select id from jobs.job_status
       where ($1::text[] is null or state = any($1) or state = 'queued'
           and (run_at > now() and 'scheduled' = any($1) or failures > 0 and 'retrying' = any($1))) and ($2::text is null or queue = $2) and ($3::text is null or kind = $3)
         and ($4::text is null or key = $4) and ($5::int is null or priority = $5)
         and ($6::timestamptz is null or created_at >= $6) and ($7::timestamptz is null or created_at < $7)
         and ($8::timestamptz is null or finished_at >= $8) and ($9::timestamptz is null or finished_at < $9)
       order by number desc`,
      [
        filter.state === undefined ? null : [filter.state].flat(),
        filter.queue,
        filter.kind,
        filter.key,
        filter.priority,
        filter.createdSince,
        filter.createdBefore,
        filter.finishedSince,
        filter.finishedBefore,
      ],
    );
    return rows.map(({ id }) => id);
  };

  const hours = (n: number) => new Date(Date.now() + n * 3_600_000);
  const pick = <T>(...list: T[]): T => list[Math.floor(Math.random() * list.length)]!;
  const states = ["queued", "running", "succeeded", "skipped", "cancelled", "dead"] as const;

  it("finds what the view says, whatever the filter and the page", async () => {
    let found = 0;
    for (let round = 0; round < 80; round++) {
      const maybe = <T>(value: T): T | undefined => (Math.random() < 0.25 ? value : undefined);
      const filter = JSON.parse("{}") as JobFilter;
      Object.assign(
        filter,
        ...Object.entries({
          state: maybe(
            pick<JobFilter["state"]>(
              ...states,
              ["queued", "dead"],
              ["running"],
              "scheduled",
              "retrying",
              ["scheduled", "succeeded"],
            ),
          ),
          queue: maybe(pick("a", "b", "none")),
          kind: maybe(pick("x", "y", "none")),
          key: maybe(pick("k0", "k1", "k2", "none")),
          priority: maybe(pick(0, 5, -3)),
          createdSince: maybe(hours(pick(-30, -1, 1))),
          createdBefore: maybe(hours(pick(-30, -10, 1))),
          finishedSince: maybe(hours(pick(-4, 10, 30))),
          finishedBefore: maybe(hours(pick(-3, 20, 50))),
        })
          .filter(([, value]) => value !== undefined)
          .map(([name, value]) => ({ [name]: value })),
      );
      const backwards = (since?: Date, before?: Date) => since && before && since > before;
      if (backwards(filter.createdSince, filter.createdBefore)) continue;
      if (backwards(filter.finishedSince, filter.finishedBefore)) continue;
      const { ids } = await walk(filter, pick(9, 50, 200));
      expect([filter, ids]).toEqual([filter, await oracle(filter)]);
      found += ids.length;
    }
    expect(found).toBeGreaterThan(500);
  });

  it("shows each job as get does, without payload, result and progress", async () => {
    const { items, searchedBackTo } = await inspector.list({}, { limit: 200 });
    expect(items).toHaveLength(200);
    expect(searchedBackTo).toBeNull();
    expect(new Set(items.map(({ state }) => state))).toEqual(new Set(states));
    for (const item of items.slice(0, 30)) {
      const { payload, result, resultProblem, progress, ...rest } = (await inspector.get(item.id))!;
      expect([item, payload, result, resultProblem, progress]).toEqual([
        rest,
        {},
        null,
        null,
        null,
      ]);
    }
  });

  it("shows a job that changes its state between two pages once", async () => {
    const before = await oracle({});
    const first = await inspector.list({}, { limit: 100 });
    const moved = await bench.sql<{ id: string }>(
      `with gone as (delete from jobs.job returning id, created_at, run_at, queue_id, lane, kind)
       insert into jobs.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, state, kind)
       select id, created_at, run_at, 1, queue_id, 0, lane, 1, 1, kind from gone returning id`,
    );
    expect(moved.length).toBeGreaterThan(20);
    const second = await inspector.list({}, { limit: 200, after: first.next! });
    expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(before);
  });
});

describe("what stands in jobs", () => {
  const find = async (filter: JobFilter) =>
    (await inspector.list({ queue: "inside", ...filter })).items.map(({ kind }) => kind).toSorted();
  const to = {
    name: "Ada",
    age: 42,
    admin: true,
    tags: ["a", { b: "c" }],
    "a.b": 1,
    none: null,
    tiny: 1e-7,
  };
  beforeAll(async () => {
    const worker = handler(defineJob("fails", { queue: "inside", attempts: 1 }), () => {
      throw new TypeError("Relay refused: 100% _full_");
    });
    const retried = handler(defineJob("retried", { queue: "inside", backoff: fixed("1h") }), () =>
      Promise.reject(new RangeError("relay away")),
    );
    const recovers = handler(
      defineJob<object>("recovers", { queue: "inside", backoff: fixed("1ms") }),
      (_, { attempt }) => {
        if (attempt === 1) throw new Error("relay away, at first");
      },
    );
    await bench.worker([worker, retried, recovers], { queues: { inside: {} } });
    const jobs = await bench.producer();
    await jobs.enqueue("waits", { to }, { queue: "inside", delay: "1h" });
    const ids = [
      [
        await jobs.enqueue("fails", { to: { name: "ada", age: "42" } }, { queue: "inside" }),
        "dead",
      ],
      [await jobs.enqueue("recovers", { to: { age: 42 } }, { queue: "inside" }), "succeeded"],
      [await jobs.enqueue("retried", [1], { queue: "inside" }), "queued"],
    ] as const;
    for (const [{ id }, state] of ids)
      await until(
        async () => {
          const job = (await inspector.get(id))!;
          return job.state === state && (state !== "queued" || job.failures === 1);
        },
        { what: `${id} is ${state}` },
      );
  });

  it.each<[string, string | number | boolean, string[]]>([
    ["to.name", "Ada", ["waits"]],
    ["to.name", "ada", ["fails"]],
    ["to.age", 42, ["fails", "recovers", "waits"]],
    ["to.age", "42", ["fails", "recovers", "waits"]],
    ["to.admin", true, ["waits"]],
    ["to.admin", "true", ["waits"]],
    ["to.age", "42.0", ["recovers", "waits"]],
    ["to.age", 4.2e1, ["fails", "recovers", "waits"]],
    ["to.age", "42e0", ["recovers", "waits"]],
    ["to.age", "1e999999", []],
    ["to.tiny", 1e-7, ["waits"]],
    ["to.tags.0", "a", ["waits"]],
    ["to.tags.1.b", "c", ["waits"]],
    ["0", 1, ["retried"]],
    ["to", '{"age": 42}', []],
    ["to.none", "null", []],
    ["to.none", "", []],
    ["to.a.b", 1, []],
    ["nothing", "Ada", []],
  ])("payload %s: %p is found", async (path, value, found) => {
    expect(await find({ payload: { path, value } })).toEqual(found);
  });

  it.each<[string, JobFilter, string[]]>([
    ["RELAY", {}, ["fails", "recovers", "retried"]],
    ["relay away", {}, ["recovers", "retried"]],
    ["TypeError: relay", {}, ["fails"]],
    ["100% _", {}, ["fails"]],
    ["100%_", {}, []],
    ["relay", { state: "dead" }, ["fails"]],
    ["relay", { state: "retrying" }, ["retried"]],
    ["relay", { payload: { path: "to.age", value: 42 } }, ["fails", "recovers"]],
    ["nothing of the kind", {}, []],
  ])("error %s and %j find them", async (error, filter, found) => {
    expect(await find({ error, ...filter })).toEqual(found);
  });
});

describe("a hostile caller", () => {
  const bad = [
    { state: "sleeping" },
    { state: [] },
    { state: [undefined] },
    { state: Array.from({ length: 1e5 }, () => "dead") },
    { state: "constructor" },
    { queue: "" },
    { queue: "a\0" },
    { queue: 7 },
    { kind: "x".repeat(65) },
    { kind: "\ud800" },
    { key: "" },
    { key: "k\0" },
    { key: "k".repeat(1e6) },
    { key: { $ne: null } },
    { priority: 1.5 },
    { priority: "1" },
    { priority: 1e9 },
    { createdSince: "yesterday" },
    { createdBefore: new Date(Number.NaN) },
    { finishedSince: new Date(8.64e15) },
    { finishedBefore: new Date(-8.64e15) },
    { error: "" },
    { error: "e\0" },
    { error: "e".repeat(201) },
    { error: ["boom"] },
    { payload: "to" },
    { payload: {} },
    { payload: { path: "to" } },
    { payload: { path: "", value: 1 } },
    { payload: { path: "a..b", value: 1 } },
    { payload: { path: "a.-1", value: 1 } },
    { payload: { path: "a.+1", value: 1 } },
    { payload: { path: "a.01", value: 1 } },
    { payload: { path: "a. 1", value: 1 } },
    { payload: { path: Array.from({ length: 21 }, () => "a").join("."), value: 1 } },
    { payload: { path: "a", value: null } },
    { payload: { path: "a", value: {} } },
    { payload: { path: "a", value: Object.create(null) } },
    { payload: { path: "a", value: Number.NaN } },
    { payload: { path: "a", value: "v".repeat(201) } },
    { payload: { path: "a", value: 1, like: true } },
    { sort: "id" },
    [],
    "state=dead",
    null,
    7,
  ];
  it.each(bad.map((filter) => [filter]))(
    "is told what is wrong with the filter %p",
    async (one) => {
      await expect(inspector.list(one as JobFilter)).rejects.toMatchObject({
        code: "OPTIONS_INVALID",
        message: expect.stringMatching(/^Invalid list:/),
      });
    },
  );

  it.each(["created", "finished"])("is told that a range of %s runs backwards", async (what) => {
    const [early, late] = [new Date(1e12), new Date(1e12 + 1)];
    const range = (since: Date, before: Date) => ({
      [`${what}Since`]: since,
      [`${what}Before`]: before,
    });
    await expect(inspector.list(range(late, early))).rejects.toMatchObject({
      code: "OPTIONS_INVALID",
      problems: [
        `filter.${what}Since: expected a time before filter.${what}Before (2001-09-09T01:46:40.000Z), ` +
          "found a later one (2001-09-09T01:46:40.001Z); are the two reversed?",
      ],
    });
    expect((await inspector.list(range(late, late))).items).toEqual([]);
  });

  it.each([0, 201, -1, 1.5, "10", Number.NaN, Infinity, null])(
    "is told what is wrong with the limit %p",
    async (limit) => {
      const refused = inspector.list({}, { limit: limit as number });
      await expect(refused).rejects.toMatchObject({ code: "OPTIONS_INVALID" });
    },
  );

  const cursor = (text: string) => Buffer.from(text).toString("base64url");
  const cursors = [
    "",
    "x",
    7,
    null,
    {},
    "1-1",
    "'; drop table job; --",
    cursor("j"),
    cursor("j-1"),
    cursor("j01"),
    cursor("j1e3"),
    cursor("j9223372036854775808"),
    cursor("k1"),
    `${cursor("j1")}=`,
    "a".repeat(1e6),
  ];
  it.each([...cursors.entries()])("is told that number %i is no cursor", async (_, after) => {
    const refused = inspector.list({}, { after: after as string });
    await expect(refused).rejects.toMatchObject({ code: "CURSOR_INVALID" });
    await expect(refused).rejects.toThrow(/^.{1,200}$/);
  });

  it("gets an empty page below the oldest job, and for what nobody has", async () => {
    const empty = { items: [], next: null, searchedBackTo: null };
    expect(await inspector.list({}, { after: cursor("j0") })).toEqual(empty);
    for (const text of ["%", "_", "' or 1=1", "__proto__"])
      expect(await inspector.list({ queue: text, kind: text, key: text })).toEqual(empty);
  });
});

describe("jobs of several processes", () => {
  it("are out of order by a minute at most: ids of an old block are not used", async () => {
    const [silent, other] = [await bench.producer(), await bench.producer()];
    const number = async (queue: JobQueue) =>
      Number((await queue.enqueue("work", {})).id.split("-")[1]);
    const first = await number(silent);
    const newer = await number(other);
    expect(await number(silent)).toBe(first + 1);
    const now = performance.now.bind(performance);
    const clock = jest.spyOn(performance, "now").mockImplementation(() => now() + 60_000);
    try {
      expect(await number(silent)).toBeGreaterThan(newer);
    } finally {
      clock.mockRestore();
    }
  });

  it("are all shown that were created since a search went back", async () => {
    const busy = await Bench.open();
    try {
      const looking = (await busy.app([busy.root()])).get(JobInspector);
      const hands = await Hands.open(busy);
      const rare = await Hands.open(busy, "default", "rare");
      const make = async (from: number, to: number, { kind, lane }: Hands, ago: string) =>
        await busy.sql(
          `insert into jobs.job (id, created_at, run_at, lane, queue_id, kind, payload)
           select n, now() - $5::interval, now(), $3, $4, $6, '{}' from generate_series($1::int, $2::int) n`,
          [from, to, lane, hands.queueId, ago, kind],
        );
      // Its process had drawn its block before the others, and used it just before that was too old.
      await make(1, 1, rare, "10 minutes");
      await make(1_025, 21_524, hands, "10 minutes 50 seconds");
      const first = await looking.list({ kind: "rare" });
      const { createdAt } = (await looking.get(rare.named("1")))!;
      expect(first.items).toEqual([]);
      expect(Date.parse(first.searchedBackTo!)).toBeGreaterThanOrEqual(Date.parse(createdAt));
      const rest = await looking.list({ kind: "rare" }, { after: first.next! });
      expect(rest.items.map(({ id }) => id)).toEqual([rare.named("1")]);

      await busy.sql("update jobs.job set created_at = now()");
      const { searchedBackTo } = await looking.list({ kind: "rare" });
      const [row] = await busy.sql<{ now: Date }>("select now()");
      expect(Date.parse(searchedBackTo!)).toBeLessThanOrEqual(row!.now.getTime());
    } finally {
      await busy.close();
    }
  });
});

it("on a schema of the release before, jobs are listed", async () => {
  const old = await firstRelease();
  try {
    const app = await old.app([old.root()]);
    const { id } = await app.get(JobQueue).enqueue("work", {});
    expect((await app.get(JobInspector).list()).items.map((one) => one.id)).toEqual([id]);
  } finally {
    await old.close();
  }
});

interface Node {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  Plans?: Node[];
}

/** Over many finished jobs a page stays within its bound, analysed or not. */
describe("over 300,000 finished jobs", () => {
  const FINISHED = 300_000;
  let large: Bench;
  let looking: JobInspector;
  let explain: (filter: Partial<JobFilter>) => Promise<Node[]>;
  beforeAll(async () => {
    large = await Bench.open();
    looking = (await large.app([large.root()])).get(JobInspector);
    const hands = await Hands.open(large);
    await large.sql(
      `insert into jobs.done (id, created_at, run_at, finished_at, attempt, queue_id, failures, lane, generation, state, kind, key)
       select n, now() - interval '1 hour', now(), now() + n % 5 * interval '1 day', 1, $1, 0, $2, 1, case when n = 5 then 2 else 1 end, 'work', 'k' || n
       from generate_series(1, ${FINISHED}) n`,
      [hands.queueId, hands.lane],
    );
    await large.sql(
      `insert into jobs.job (id, run_at, lane, queue_id, kind, payload, key)
       select n, now(), $2, $1, 'work', '{}', 'k' || n from generate_series(${FINISHED} + 1, ${FINISHED} + 60000) n`,
      [hands.queueId, hands.lane],
    );
    explain = await explainer(large);
  });
  afterAll(async () => await large.close());

  const looked = (nodes: Node[]) =>
    nodes
      .filter((node) => /^(job|done_|dead)/.test(node["Relation Name"] ?? ""))
      .map(
        (node) =>
          (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"],
      )
      .reduce((sum, n) => sum + n, 0);

  it.each(["never analysed", "analysed"])(
    "%s, a page looks at a bounded number of rows",
    async (how) => {
      if (how === "analysed")
        await large.sql(`analyze ${large.schema}.job, ${large.schema}.done, ${large.schema}.dead`);
      // Within the bound, and for each job that is shown a look into each table.
      const most = 20_000 + 100;
      for (const [filter, rows] of [
        [{}, 800],
        [{ state: "succeeded" }, 800],
        [{ state: "skipped" }, most],
        [{ state: "dead" }, 10],
        [{ kind: "none" }, most],
        [{ queue: "none" }, most],
        [{ priority: 7 }, most],
        [{ state: "succeeded", key: "none" }, most],
        [{ state: "queued", key: `k${FINISHED + 3}` }, 10],
        [{ createdBefore: new Date(0) }, most],
        [{ state: ["scheduled", "retrying"] }, most],
        [{ finishedSince: new Date(Date.now() + 20 * 86_400_000) }, 10],
        [{ finishedSince: new Date(Date.now() + 86_400_000), state: "skipped" }, most],
        [{ error: "boom" }, 5_100],
        [{ payload: { path: "to", value: "ada" } }, 5_100],
      ] as [JobFilter, number][]) {
        const nodes = await explain(filter);
        expect([filter, looked(nodes) <= rows, looked(nodes)]).toEqual([
          filter,
          true,
          expect.any(Number),
        ]);
      }
    },
  );

  it("says how far back it searched, and goes on from there", async () => {
    const first = await looking.list({ state: "skipped" });
    expect(first).toEqual({
      items: [],
      next: expect.any(String),
      searchedBackTo: expect.stringMatching(/^20.*Z$/),
    });
    let page = first;
    let pages = 1;
    while (page.items.length === 0) {
      page = await looking.list({ state: "skipped" }, { after: page.next! });
      expect(++pages).toBeLessThanOrEqual(FINISHED / 20_000);
    }
    expect(pages).toBe(FINISHED / 20_000);
    expect(page.items.map(({ id }) => id)).toEqual(["1-5"]);
  });

  it("finds an unfinished key at once, however far back", async () => {
    const filter = { state: ["queued", "running"], key: `k${FINISHED + 1}` } as const;
    const page = await looking.list(filter);
    expect(page).toEqual({
      items: [expect.objectContaining<Partial<JobSummary>>({ key: filter.key, state: "queued" })],
      next: null,
      searchedBackTo: null,
    });
  });
});

/** Explains the very statement, with the very values. */
async function explainer(of: Bench): Promise<(filter: JobFilter) => Promise<Node[]>> {
  const module: { list: (typeof import("../../libs/jobs/src/store/reads/list.js"))["list"] } =
    await import("../../libs/jobs/src/store/reads/list.js");
  const client = await of.client();
  return async (filter) => {
    const parsed: ParsedJobFilter = parseList(filter).filter;
    let plan: Node | undefined;
    await client.query("begin");
    await module.list(
      {
        run: async (statement: actual.Statement, values: readonly unknown[] = []) => {
          if (values.length === 0) {
            await client.query(statement.text(of.schema));
            return [];
          }
          const { rows } = await client.query<{ "QUERY PLAN": { Plan: Node }[] }>(
            `explain (analyze, format json) ${statement.text(of.schema)}`,
            values as unknown[],
          );
          plan = rows[0]!["QUERY PLAN"][0]!.Plan;
          return [];
        },
      },
      parsed,
      50,
      null,
      true,
    );
    await client.query("rollback");
    const all = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(all)];
    return all(plan!);
  };
}
