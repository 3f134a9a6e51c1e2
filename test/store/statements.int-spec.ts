import { readdirSync } from "node:fs";
import path from "node:path";
import { jest } from "@jest/globals";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import * as actual from "../../libs/jobs/src/pg/statement.js";
import { MIGRATIONS } from "../../libs/jobs/src/store/migrations/migrate.js";
import { enqueue } from "../../libs/jobs/src/store/transitions/enqueue.js";
import { Bench, behindPooler } from "../support/harness.js";
import { Hands } from "../support/hands.js";

// Every statement can be prepared; the hot ones have plans that do not grow with the backlog.

const all: actual.Statement[] = [];
class Collected extends actual.Statement {
  constructor(...args: ConstructorParameters<typeof actual.Statement>) {
    super(...args);
    all.push(this);
  }
}
jest.unstable_mockModule("../../libs/jobs/src/pg/statement.js", () => ({
  ...actual,
  Statement: Collected,
}));

const ROWS = 1_000_000;
const AT = new Date("2030-01-02T03:04:05Z");
let bench: Bench;
let hands: Hands;
let session: Session;
beforeAll(async () => {
  // Loaded once more, so that each of them is made under our eyes.
  jest.resetModules();
  const folder = path.join(import.meta.dirname, "../../libs/jobs/src/store");
  for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" }))
    if (file.endsWith(".ts") && !file.endsWith("spec.ts"))
      await import(`../../libs/jobs/src/store/${file.replace(/\.ts$/, ".js")}`);
  bench = await Bench.open();
  hands = await Hands.open(bench);
  session = bench.session("settle");
});
afterAll(async () => await bench.close());

const sql = async (text: string) => await session.run(new actual.Statement(null, () => text));

it("every statement has a name of its own and can be prepared", async () => {
  const named = all.filter(({ name }) => name !== null);
  expect(named.length).toBeGreaterThan(25);
  expect(new Set(named.map(({ name }) => name)).size).toBe(named.length);
  for (const statement of named) {
    const problem = await sql(
      `prepare "${statement.name}" as ${statement.text(bench.schema)}`,
    ).then(
      () => undefined,
      (error: Error) => error.message,
    );
    expect([statement.name, problem]).toEqual([statement.name, undefined]);
  }
  await sql("deallocate all");
});

// A database with another encoding than UTF8 translates the whole text, comments too, and refuses what it has no
// character for.
it("no statement has a character that a database with an old encoding lacks", () => {
  const texts = [
    ...all.map((one) => [one.name, one.text("jobs")] as const),
    ...MIGRATIONS.map(({ name, sql: text }) => [name, text('"jobs"')] as const),
  ];
  expect(texts.length).toBeGreaterThan(25);
  // oxlint-disable-next-line no-control-regex -- all of ASCII
  expect(texts.filter(([, text]) => !/^[\u0000-\u007f]*$/.test(text))).toEqual([]);
});

interface Node {
  "Node Type": string;
  "Index Name"?: string;
  "Relation Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Shared Hit Blocks": number;
  "Shared Read Blocks": number;
  Plans?: Node[];
}

/** What a statement did, prepared with a generic plan and then undone. */
async function plan(name: string, values: string): Promise<Node[]> {
  const statement = all.find((one) => one.name === name)!;
  await sql(`prepare it as ${statement.text(bench.schema)}`);
  try {
    const nodes: Node[] = [];
    await session
      .transaction(async (run) => {
        const text = `explain (analyze, buffers, format json) execute it (${values})`;
        const [row] = await run(new actual.Statement(null, () => text));
        const walk = (node: Node) => {
          nodes.push(node);
          node.Plans?.forEach(walk);
        };
        walk(JSON.parse(row![0]!)[0].Plan);
        throw new Undo();
      })
      .catch((error: unknown) => {
        if (!(error instanceof Undo)) throw error;
      });
    return nodes;
  } finally {
    await sql("deallocate it");
  }
}
class Undo extends Error {}

// Behind a pooler nothing is prepared.
(behindPooler ? describe.skip : describe)("on a connection of our own", () => {
  it("an enqueue is planned no more once it has been sent some times", async () => {
    const front = bench.session("front");
    const producer = await Hands.open(bench, "default", "work", 0, front);
    for (let n = 0; n < 10; n++) {
      await producer.addMany(1);
      await producer.addMany(2 + (n % 3));
      const ids = Array.from({ length: 2 + (n % 3) }, (_, index) => String(1e6 + 10 * n + index));
      const unlike = ids.map((id, index) => producer.job({ id, attempts: index + 1, at: AT }));
      await enqueue(front, producer.queueId, unlike);
    }
    const plans = await front.run(
      new actual.Statement(
        null,
        () =>
          `select name, custom_plans, generic_plans from pg_prepared_statements where name like 'enqueue%' order by name`,
      ),
    );
    // PostgreSQL makes five to compare with.
    expect(plans).toEqual([
      ["enqueue", "5", "5"],
      ["enqueue_alike", "5", "5"],
      ["enqueue_one", "5", "5"],
    ]);
    await bench.sql("delete from jobs.job");
  });
});

const types = (nodes: Node[]) => nodes.map((node) => node["Node Type"]);
const indexes = (nodes: Node[]) => new Set(nodes.map((node) => node["Index Name"]).filter(Boolean));
/** Pages that the whole statement went through; its root has those of all. */
const pages = ([root]: Node[]) => root!["Shared Hit Blocks"] + root!["Shared Read Blocks"];
const touched = (nodes: Node[]) => {
  const scans = nodes.filter((node) => node["Relation Name"] === "job");
  expect(scans).not.toEqual([]);
  return Math.max(
    ...scans.map(
      (node) =>
        (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"],
    ),
  );
};

const lane = () => hands.lane;
const queue = () => hands.queueId;

describe.each([
  ["never analysed", "select 1"],
  ["analysed", `analyze %.job`],
])(`over ${ROWS} jobs, %s`, (_, statistics) => {
  beforeAll(async () => {
    const [row] = await bench.sql<{ n: number }>("select count(*)::int as n from jobs.job");
    if (row!.n === 0)
      await bench.sql(
        `insert into jobs.job (id, run_at, lane, queue_id, kind, payload, worker, attempt, lease_until)
         select n, now() - (n % 1000) * interval '1 s' + case when n % 4 = 0 then interval '1 day' else '0' end,
           $1, $2, 'work', '{}', case when n <= 20 then 1 end, 1, case when n <= 20 then now() + interval '1 h' end
         from generate_series(1, ${ROWS}) n`,
        [lane(), queue()],
      );
    await bench.sql(statistics.replace("%", bench.schema));
  });

  it.each(["claim", "claim_noted"])(
    "a %s walks its lane in order and stops when it has enough",
    async (name) => {
      const nodes = await plan(
        name,
        `${queue()}, ${await hands.version()}, '{${lane()}}', '{-infinity}', '{0}', '{0}', '{100}', 100, 30000, 1, 'infinity'`,
      );
      expect(indexes(nodes)).toEqual(new Set(["job_claim", "job_pkey", "queue_pkey"]));
      expect(types(nodes)).not.toContain("Sort");
      expect(types(nodes)).not.toContain("Seq Scan");
      expect(touched(nodes)).toBeLessThanOrEqual(120);
      expect(pages(nodes)).toBeLessThan(1_200);
    },
  );

  it("an enqueue reads no job, and as few pages as on an empty table", async () => {
    const ids = [1, 2, 3].map((id) => 5 * ROWS + id).join(",");
    const alike = `${queue()}, ${lane()}, 'default', 'work', 0, 0, null, null, '{${ids}}', '[{},{},{}]'`;
    const unlike = `${queue()}, '{${ids}}', '[{},{},{}]', null, null, null, 0, '{${lane()}}', '{work}', '{null}', '{null}', '{1,1,1}',
      'default', '[{"lane":${lane()},"kind":"work","priority":0}]'`;
    const one = `${5 * ROWS}, null, 0, null, null, '{}', ${queue()}, 'default', ${lane()}, 'work', 0`;
    const texts = { enqueue_one: one, enqueue_alike: alike, enqueue: unlike };
    for (const [name, values] of Object.entries(texts)) {
      const nodes = await plan(name, values);
      const inserted = nodes.find((node) => node["Relation Name"] === "job");
      expect(inserted!["Node Type"]).toBe("ModifyTable");
      expect(nodes.filter((node) => node["Relation Name"] === "job")).toHaveLength(1);
      // Three rows in a table and two of its indexes.
      expect(pages(nodes)).toBeLessThan(80);
    }
  });

  it.each(["succeed", "skip", "succeed_and_forget", "skip_and_forget", "skip_and_forget_noted"])(
    "%s goes by the primary key",
    async (verb) => {
      const nodes = await plan(verb, `${queue()}, '{1,2,3}', '{"1":[1],"2":[1],"3":[1]}', 1`);
      expect([...indexes(nodes)].filter((name) => name!.startsWith("job"))).toEqual(["job_pkey"]);
      expect(types(nodes)).not.toContain("Seq Scan");
      expect(touched(nodes)).toBe(3);
      expect(pages(nodes)).toBeLessThan(120);
    },
  );

  it.each([
    ["renew", `, 30000`],
    ["snooze", ""],
    ["hand_back", ""],
    ["retry", ""],
    ["bury", ""],
    ["snooze_noted", ""],
    ["hand_back_noted", ""],
    ["retry_noted", ""],
    ["bury_noted", ""],
    ["find_settled", ""],
    ["still_held", ""],
    ["cancel_held", ""],
  ])("%s goes by the primary key", async (verb, more) => {
    const field = verb.startsWith("retry")
      ? '5, {"message":"x"}'
      : verb.startsWith("bury")
        ? '{}, "crashed", 1'
        : "1, 0";
    const fence = verb.startsWith("hand_back") ? "true, false" : field;
    const nodes = await plan(
      verb,
      `${queue()}, '{1,2}', '{"1":[1, ${fence}],"2":[1, ${fence}]}', 1${more}`,
    );
    const used = [...indexes(nodes)].filter((name) => name!.startsWith("job"));
    expect(used).toEqual(["job_pkey"]);
    expect(touched(nodes)).toBeLessThanOrEqual(2);
    expect(pages(nodes)).toBeLessThan(120);
  });

  it("an idle look reads the head of each lane", async () => {
    const nodes = await plan(
      "look",
      `'{${queue()}}', '{${queue()}}', '{${lane()}}', '{-infinity}', '{0}', true`,
    );
    expect(indexes(nodes)).toContain("job_claim");
    expect(touched(nodes)).toBeLessThanOrEqual(21);
    expect(pages(nodes)).toBeLessThan(120);
  });

  it("get reads one row by its key", async () => {
    const nodes = await plan("get_job", `${queue()}, 77`);
    expect(indexes(nodes)).toContain("job_pkey");
    expect(touched(nodes)).toBe(1);
  });

  it("a history reads the rows of one job", async () => {
    const nodes = await plan("get_history", `${queue()}, 77`);
    expect(types(nodes)).not.toContain("Seq Scan");
    expect(touched(nodes)).toBe(1);
  });

  it("a key is looked up by its index", async () => {
    const nodes = await plan("find_by_key", `${queue()}, 'work', '{a,b}'`);
    expect(indexes(nodes)).toEqual(new Set(["job_key"]));
  });

  it("a cancel touches only its job", async () => {
    const nodes = await plan("cancel", `${queue()}, 77`);
    expect([...indexes(nodes)].filter((name) => name!.startsWith("job"))).toEqual(["job_pkey"]);
    expect(touched(nodes)).toBe(1);
  });

  it.each(["requeue", "requeue_noted"])("a %s touches only its letter", async (name) => {
    const nodes = await plan(name, `${queue()}, 77, null`);
    expect(types(nodes)).not.toContain("Seq Scan");
    expect(indexes(nodes)).toContain("dead_pkey");
  });
});

describe("what the upkeep sends through the front", () => {
  /** Relations that are read whole. */
  async function readWhole(name: string, values: string): Promise<(string | undefined)[]> {
    const statement = all.find((one) => one.name === name)!;
    const found: (string | undefined)[] = [];
    // On one connection, behind a pooler too.
    await bench.session("front").transaction(async (on) => {
      const run = async (text: string) => await on(new actual.Statement(null, () => text));
      await run(`prepare it as ${statement.text(bench.schema)}`);
      for (const mode of ["force_custom_plan", "force_generic_plan"]) {
        await run(`set local plan_cache_mode = ${mode}`);
        const [row] = await run(`explain (format json) execute it (${values})`);
        const walk = (node: Node) => {
          if (node["Node Type"] === "Seq Scan") found.push(node["Relation Name"]);
          node.Plans?.forEach(walk);
        };
        walk(JSON.parse(row![0]!)[0].Plan);
      }
      await run("deallocate it");
    });
    return found;
  }

  beforeAll(async () => {
    await bench.sql(
      `insert into jobs.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, state)
       select n, now(), now(), 1, $1, 0, $2, 1, 'work', 1 from generate_series(1, 60000) n`,
      [queue(), lane()],
    );
    await bench.sql(
      `insert into jobs.progress (job_id, reported_at, percent, attempt, queue_id)
       select n, now() - interval '30 days', 1, 1, $1 from generate_series(30000, 90000) n`,
      [queue()],
    );
    await bench.sql(
      `insert into jobs.dead (id, created_at, run_at, worker, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
       select n, now(), now(), n % 1000, 1, $1, 1, 0, $2, 1, 'work', '{}', 'exhausted' from generate_series(100001, 160000) n`,
      [queue(), lane()],
    );
    await bench.sql(
      `insert into jobs.worker (host, pid, beat_at) select 'old', n, now() - interval '1 year' from generate_series(1, 1500) n`,
    );
    await bench.sql("analyze jobs.done");
    await bench.sql("analyze jobs.progress");
    await bench.sql("analyze jobs.dead");
    await bench.sql("analyze jobs.worker");
  });

  it("to prune progress reads neither it nor jobs whole", async () => {
    const read = await readWhole("prune_progress", "0, 0, 5000");
    // The catalogs, and days to come, in which there is nothing.
    const today = new Date().toISOString().slice(0, 10).replaceAll("-", "");
    const whole = ["progress", "job", "dead", "dead_archive", `done_${today}`];
    expect(read.filter((name) => whole.includes(name!))).toEqual([]);
  });

  it("to forget workers reads no dead letters whole", async () => {
    const read = await readWhole("forget_workers", "604800000");
    expect(read.filter((name) => name !== "worker")).toEqual([]);
  });
});

it("the front's own settings do as well for what it sends", async () => {
  const statement = all.find(({ name }) => name === "find_by_id")!;
  const prepare = `prepare it (integer, bigint[]) as ${statement.text(bench.schema)}`;
  const explain = `explain (analyze, format json) execute it (${queue()}, '{1,2,3}')`;
  await bench.session("front").transaction(async (on) => {
    const run = async (text: string) => await on(new actual.Statement(null, () => text));
    await run(prepare);
    const [row] = await run(explain);
    expect(row![0]).toContain("job_pkey");
    await run("deallocate it");
  });
});
