import { readdirSync } from "node:fs";
import path from "node:path";
import { jest } from "@jest/globals";
import type { Purpose } from "../../libs/jobs/src/pg/database.js";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import * as actual from "../../libs/jobs/src/pg/statement.js";
import { MIGRATIONS } from "../../libs/jobs/src/store/migrations/migrate.js";
import { enqueue } from "../../libs/jobs/src/store/transitions/enqueue.js";
import { Bench, behindPooler } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { type Explain, type PlanNode, explain, pages } from "../support/plans.js";

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
const DONE = 100_000;
const SEVERAL = 10_000;
const DAILY = ["done", "attempt_error", "event", "job_log"];
const TODAY = new Date().toISOString().slice(0, 10).replaceAll("-", "");
const AT = new Date("2030-01-02T03:04:05Z");
/** When the schedules were due that are. */
const DUE = "2020-01-02T03:04:05Z";
let bench: Bench;
let hands: Hands;
let session: Session;
let sessions: Record<Purpose, Session>;
const sessionsOf = (of: Bench) => ({
  front: of.session("front"),
  aside: of.session("aside"),
  claim: of.session("claim"),
  settle: of.session("settle"),
});
beforeAll(async () => {
  // Loaded once more, so that each of them is made under our eyes.
  jest.resetModules();
  const folder = path.join(import.meta.dirname, "../../libs/jobs/src/store");
  for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" }))
    if (file.endsWith(".ts") && !file.endsWith("spec.ts"))
      await import(`../../libs/jobs/src/store/${file.replace(/\.ts$/, ".js")}`);
  bench = await Bench.open();
  hands = await Hands.open(bench);
  sessions = sessionsOf(bench);
  session = sessions.settle;
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

/** Who sends a statement, and how it is planned there. */
interface Way {
  purpose: Purpose;
  mode?: Explain["mode"];
}
const CLAIM: Way = { purpose: "claim" };
const SETTLE: Way = { purpose: "settle" };
// It leaves plans to PostgreSQL, which plans for the values of a call first and may keep a generic plan later. So do the
// connections of callers, and those that are lent to handlers.
const GENERIC: Way = { purpose: "front", mode: "force_generic_plan" };
const CUSTOM: Way = { purpose: "front", mode: "force_custom_plan" };
// Its connection has no settings, and its statements have their values in the text.
const THREAD = CUSTOM;

/** What a statement did where it is sent from, and then undid. */
async function plan(
  name: string,
  values: string,
  { purpose, mode }: Way,
  { before, from = sessions }: { before?: string; from?: typeof sessions } = {},
): Promise<PlanNode[]> {
  const statement = all.find((one) => one.name === name)!;
  return await explain(from[purpose], statement, values, { mode, before });
}

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

const types = (nodes: PlanNode[]) => nodes.map((node) => node["Node Type"]);
const indexes = (nodes: PlanNode[]) =>
  new Set(nodes.map((node) => node["Index Name"]).filter(Boolean));
const scansOf = (nodes: PlanNode[], table: string) =>
  nodes.filter(
    (node) => node["Relation Name"] === table && !["ModifyTable"].includes(node["Node Type"]),
  );
const rows = (node: PlanNode) =>
  (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"];
/** Rows of jobs that were looked at. */
const touched = (nodes: PlanNode[]) => Math.max(0, ...scansOf(nodes, "job").map(rows));

/** Tables that have a row, or a page, for each queue, lane, counter, duty or worker; and what the system has. */
const SMALL = /^(queue|lane|stat|chore|worker|daily|pg_.*)$/;
/** Tables that grow with what was ever done, and are read whole. */
const readWhole = (nodes: PlanNode[]) =>
  nodes
    .filter((node) => node["Node Type"] === "Seq Scan" && !SMALL.test(node["Relation Name"]!))
    .map((node) => node["Relation Name"]);
/** Sorts of more than a batch. */
const sorts = (nodes: PlanNode[]) =>
  nodes.filter((node) => node["Node Type"].includes("Sort") && rows(node) > 100);

const lane = () => hands.lane;
const queue = () => hands.queueId;
const fresh = [1, 2, 3].map((id) => 5 * ROWS + id).join(",");
const three = (field: string) =>
  `'{1,2,3}', '{"1":[1, ${field}],"2":[1, ${field}],"3":[1, ${field}]}', 1`;
const lanes = () => `'default', '[{"lane":${lane()},"kind":"work","priority":0}]'`;
const HEADERS = `'[{"a":1},{"a":1},null]'`;
const keyed = (field = "") =>
  `'[{"id":${5 * ROWS},"lane":${lane()},"kind":"work","payload":{},"delay":0,"key":"k1"${field}}]'`;
const parent = () => `${queue()}, 1, 1, 1`;
const unlike = (keys: string) =>
  `${queue()}, '{${fresh}}', '[{},{},{}]', ${keys}, null, null, 0, '{${lane()}}', '{work}', '{null}', '{null}', '{1,1,1}', ${lanes()}`;

interface Hot {
  name: string;
  values(): string;
  ways: readonly Way[];
  /** Jobs that it looks at; absent: 3 at most. */
  touches?: number;
  /** Pages that it goes through, with those of the tables that it writes to; default 300. */
  pages?: number;
  before?: string;
  /** It may sort as many rows as it takes. */
  sorts?: true;
}

const FRONT = [GENERIC, CUSTOM];
const sent = (
  names: readonly string[],
  ways: readonly Way[],
  values: () => string,
  more: Partial<Hot> = {},
): Hot[] => names.map((name) => ({ name, ways, values, ...more }));
const noted = (...names: string[]) => names.flatMap((name) => [name, `${name}_noted`]);
const fencedBy = (field: string) => () => `${queue()}, ${three(field)}`;
const oneJob = () => `${queue()}, 77`;

const HOT: Hot[] = [
  ...sent(
    noted("succeed", "skip", "succeed_and_forget", "skip_and_forget"),
    [SETTLE],
    fencedBy("1"),
    { touches: 3 },
  ),
  ...sent(
    noted("succeed_within", "succeed_within_and_forget"),
    FRONT,
    () => `${queue()}, ${three("1")}, 'm'`,
    { touches: 3, before: "set local pg_jobs.transaction = 'm'" },
  ),
  ...sent(noted("snooze"), [SETTLE], fencedBy("1"), { touches: 3 }),
  ...sent(noted("hand_back"), [SETTLE], fencedBy("true, false, true"), { touches: 3 }),
  ...sent(noted("retry"), [SETTLE], fencedBy('5, {"message":"x"}'), { touches: 3 }),
  ...sent(noted("bury"), [SETTLE], fencedBy('{}, "crashed", 1'), { touches: 3 }),
  ...sent(["cancel_held", "find_locked"], [SETTLE], fencedBy("null"), { touches: 3 }),
  // Three ids in each day of two tables.
  ...sent(["find_settled"], [SETTLE, ...FRONT], fencedBy("null"), { touches: 3, pages: 240 }),
  ...sent(["find_finished"], [SETTLE, ...FRONT], fencedBy("null"), { touches: 0 }),
  ...sent(
    ["report", "report_last"],
    [SETTLE],
    () => `${queue()}, ${three('50, "half", [[1, 0, "line"]]')}, true`,
    { touches: 3 },
  ),
  ...sent(["lock_job"], FRONT, fencedBy("null"), { touches: 3 }),
  ...sent(["renew"], [THREAD], () => `${queue()}, ${three("0")}, 30000`, { touches: 3 }),
  ...sent(["still_held"], [THREAD], fencedBy("0"), { touches: 3 }),
  ...sent(["find_by_id"], [SETTLE, ...FRONT], () => `${queue()}, '{1,2,3}'`, { touches: 3 }),
  ...sent(["find_by_key"], FRONT, () => `${queue()}, 'work', '{k1,k2}'`, { touches: 2 }),
  ...sent(["enqueue_unless_there"], FRONT, () => `${unlike(`'["k1","k2",null]'`)}, '50'`),
  ...sent(
    ["enqueue_unless_there_with_headers"],
    FRONT,
    () => `${unlike(`'["k1","k2",null]'`)}, '50', ${HEADERS}`,
  ),
  ...sent(["label_jobs"], FRONT, () => `${queue()}, '{1,2,3}', '{"1":{},"2":{},"3":{}}'`, {
    touches: 3,
  }),
  ...sent(["find_subscribers"], FRONT, () => `'event 7', 'a', null`),
  ...sent(["find_subscribers"], FRONT, () => `'event 7', null, '{kind 7,kind 8}'`),
  ...sent(["due_schedules"], FRONT, () => `'{}'`),
  ...sent(
    ["fire_schedule"],
    FRONT,
    () =>
      `'schedule 7', '${DUE}', 77, '{${5 * ROWS}}', '{"${DUE}"}', '${DUE}', '${AT.toISOString()}'`,
    { touches: 1 },
  ),
  ...sent(
    ["enqueue_unique"],
    FRONT,
    () => `${queue()}, ${keyed(',"window_ms":1000')}, ${lanes()}, '50'`,
  ),
  ...sent(
    ["enqueue_unique"],
    FRONT,
    () => `${queue()}, ${keyed(',"conflict":"replace"')}, ${lanes()}, '50'`,
  ),
  ...sent(
    ["enqueue_fenced"],
    FRONT,
    () =>
      `${parent()}, ${5 * ROWS}, ${queue()}, ${lane()}, 'work', null, 0, null, null, null, '{}', ${lanes()}`,
  ),
  ...sent(
    ["enqueue_keyed_fenced"],
    FRONT,
    () =>
      `${parent()}, ${5 * ROWS}, ${queue()}, ${lane()}, 'work', null, 0, null, null, 'k1', '{}', ${lanes()}, '50'`,
  ),
  ...sent(
    ["enqueue_unique_fenced"],
    FRONT,
    () => `${parent()}, ${queue()}, ${keyed(',"window_ms":1000')}, ${lanes()}, '50'`,
  ),
  ...sent(["cancel", "cancel_and_tell", "find_ended"], FRONT, oneJob, { touches: 1 }),
  // One that runs: its worker is told.
  ...sent(["cancel_and_tell"], FRONT, () => `${queue()}, 7`, { touches: 1 }),
  ...sent(["delete", "delete_again"], FRONT, oneJob, { touches: 1 }),
  ...sent(noted("requeue"), FRONT, () => `${queue()}, ${3 * ROWS + 1}, null`),
  ...sent(["find_job", "find_job_or_archived"], FRONT, oneJob, { touches: 1 }),
  ...sent(["get_job", "get_job_with_progress"], FRONT, oneJob, { touches: 1 }),
  ...sent(["get_errors", "get_errors_or_archived"], FRONT, oneJob),
  ...sent(["get_history"], FRONT, () => `${queue()}, ${2 * ROWS + 1}`, { pages: 400 }),
  ...sent(["roll_up"], FRONT, () => `20000, '(1,0)', '(2,0)'`, { sorts: true }),
  ...sent(["remove_windows"], FRONT, () => "100"),
  ...sent(["beat_worker"], FRONT, () => "77, 1, 0"),
  ...sent(["take_chore"], FRONT, () => `'rollup', false`),
  ...sent(["find_requested_cancels"], [CLAIM], () => `'{1,2}'`),
  ...sent(["remove_requested_cancels"], [CLAIM], () => `'{1,2}', '{1,1}', '{1,2}', '{1,1}'`),
  ...sent(
    ["list_pauses", "list_limited_queues", "list_limit_rules"],
    FRONT,
    () => `'{${queue()}}'`,
  ),
];

// As autovacuum does it: days to come, in which nothing has changed, are left alone.
const VACUUMED = [
  "job",
  "dead",
  "dedup",
  "stat_delta",
  "control",
  "schedule",
  "subscription",
  ...DAILY.map((table) => `${table}_${TODAY}`),
];

describe.each([
  ["never analysed", undefined],
  ["analysed", "all"],
  // A vacuum that comes when a queue is empty says so of a table that has its pages still, and until the next one,
  // whatever comes, the planner takes each of its plans for as cheap as the others.
  ["vacuumed when there was none", 0],
  ["vacuumed when there was one", 1],
  ["vacuumed when there were 20", 20],
] as const)(`over ${ROWS} jobs, %s`, (_, seen) => {
  beforeAll(async () => {
    const [row] = await bench.sql<{ n: number }>("select count(*)::int as n from jobs.job");
    if (row!.n === 0) await fill();
    if (seen === undefined) return;
    for (const table of VACUUMED) await bench.sql(`analyze jobs.${table}`);
    if (seen === "all") return;
    await bench.sql(
      `update pg_class set reltuples = $1 where oid = any(
         select unnest(array[c.oid] || array(select i.indexrelid from pg_index i where i.indrelid = c.oid))
         from pg_class c where c.relnamespace = $2::regnamespace and c.relname = any($3))`,
      [seen, bench.schema, VACUUMED],
    );
  });

  it.each([
    ["claim", "its lane", "-infinity", "NULL"],
    ["claim_noted", "its lane", "-infinity", "NULL"],
    // Of 1,000 s, in which the due jobs lie evenly: a hundredth, 500 s ago.
    ["claim", "a slice of its lane", "now() - 490 s", "0"],
  ])("a %s walks %s in order and stops when it has enough", async (name, _what, at, until) => {
    const [row] = await bench.sql<{ at: string }>(
      "select case when $1 = '-infinity' then '-infinity' else (now() - interval '490 s')::text end as at",
      [at],
    );
    const nodes = await plan(
      name,
      `${queue()}, ${await hands.version()}, '{${lane()}}', '{"${row!.at}"}', '{0}', '{${until === "NULL" ? 0 : 10_000}}', '{100}', 100, 30000, 1, 'infinity', '{${until}}'`,
      CLAIM,
    );
    expect(indexes(nodes)).toEqual(new Set(["job_claim", "job_pkey", "queue_pkey"]));
    expect(types(nodes)).not.toContain("Sort");
    expect(types(nodes)).not.toContain("Seq Scan");
    expect(touched(nodes)).toBeGreaterThan(0);
    expect(touched(nodes)).toBeLessThanOrEqual(120);
    expect(pages(nodes)).toBeLessThan(1_200);
  });

  it("a slice that holds nothing costs as little, however much lies before and behind it", async () => {
    const nodes = await plan(
      "claim",
      `${queue()}, ${await hands.version()}, '{${lane()}}', '{2001-01-01}', '{0}', '{10000}', '{100}', 100, 30000, 1, 'infinity', '{0}'`,
      CLAIM,
    );
    expect(touched(nodes)).toBe(0);
    expect(pages(nodes)).toBeLessThan(60);
  });

  it("an enqueue reads no job, and as few pages as on an empty table", async () => {
    const alike = `${queue()}, ${lane()}, 'default', 'work', 0, 0, null, null, '{${fresh}}', '[{},{},{}]'`;
    const one = `${5 * ROWS}, null, 0, null, null, '{}', ${queue()}, 'default', ${lane()}, 'work', 0`;
    const texts = {
      enqueue_one: one,
      enqueue_one_with_headers: `${one}, '{"a":1}'`,
      enqueue_alike: alike,
      enqueue: unlike("null"),
      enqueue_with_headers: `${unlike("null")}, ${HEADERS}`,
    };
    for (const way of FRONT)
      for (const [name, values] of Object.entries(texts)) {
        const nodes = await plan(name, values, way);
        const inserted = nodes.find((node) => node["Relation Name"] === "job");
        expect(inserted!["Node Type"]).toBe("ModifyTable");
        expect(nodes.filter((node) => node["Relation Name"] === "job")).toHaveLength(1);
        // Three rows in a table and three of its indexes.
        expect(pages(nodes)).toBeLessThan(200);
      }
  });

  it.each(["look", "look_at_schedules"])("an idle %s reads the head of each lane", async (name) => {
    const nodes = await plan(
      name,
      `'{${queue()}}', '{${queue()}}', '{${lane()}}', '{-infinity}', '{0}', true`,
      CLAIM,
    );
    expect(indexes(nodes)).toContain("job_claim");
    expect(scansOf(nodes, "stat_delta").map((node) => node["Node Type"])).toEqual([
      "Tid Range Scan",
    ]);
    expect(readWhole(nodes)).toEqual([]);
    expect(sorts(nodes)).toEqual([]);
    expect(touched(nodes)).toBeGreaterThan(0);
    expect(touched(nodes)).toBeLessThanOrEqual(21);
    expect(pages(nodes)).toBeLessThan(300);
  });

  it("health looks at the head of each lane, once", async () => {
    const nodes = await plan("health", "null", { purpose: "aside" });
    // The deltas that are not rolled up yet are counted one by one.
    expect(readWhole(nodes).filter((table) => table !== "stat_delta")).toEqual([]);
    const walks = scansOf(nodes, "job");
    expect(new Set(walks.map((node) => node["Index Name"]))).toEqual(new Set(["job_claim"]));
    expect(walks.filter((node) => rows(node) > 0)).toHaveLength(1);
    expect(touched(nodes)).toBeLessThanOrEqual(20_010);
    expect(touched(nodes)).toBeGreaterThan(20_000 - 2);
  });

  it("what comes next is the head of each lane that somebody serves", async () => {
    const values = "('here', 1, '{\"default\": [\"work\"]}', 1)";
    const nodes = await plan(
      "pick_due",
      `${queue()}, null, 3`,
      { purpose: "aside" },
      { before: `insert into ${bench.schema}.worker (host, pid, kinds, slots) values ${values}` },
    );
    expect(scansOf(nodes, "job").map((node) => node["Index Name"])).toEqual(["job_claim"]);
    expect(readWhole(nodes)).toEqual([]);
    expect(sorts(nodes)).toEqual([]);
    expect(touched(nodes)).toBeGreaterThan(0);
    expect(touched(nodes)).toBeLessThanOrEqual(10);
    expect(pages(nodes)).toBeLessThan(300);
  });

  describe.each(HOT.map((hot) => [hot.name, hot] as const))("%s", (name, hot) => {
    it.each(hot.ways.map((way) => [`${way.purpose} ${way.mode ?? ""}`.trim(), way] as const))(
      "from %s: no table whole, no sort, few pages",
      async (_from, way) => {
        const nodes = await plan(name, hot.values(), way, hot);
        expect(readWhole(nodes)).toEqual([]);
        expect(hot.sorts ? [] : sorts(nodes)).toEqual([]);
        expect(indexes(nodes)).not.toContain("job_claim");
        const few = Math.min(touched(nodes), 3);
        expect(touched(nodes)).toBe(hot.touches ?? few);
        expect(pages(nodes)).toBeLessThan(hot.pages ?? 300);
      },
    );
  });
});

// A session that has begun with the schema keeps the plans of that day.
describe("over empty tables", () => {
  let empty: Bench;
  let from: typeof sessions;
  beforeAll(async () => {
    empty = await Bench.open();
    await Hands.open(empty);
    from = sessionsOf(empty);
  });
  afterAll(async () => await empty.close());

  it.each(HOT.map((hot) => [hot.name, hot] as const))(
    "%s reads no table whole",
    async (name, hot) => {
      for (const way of hot.ways.filter(({ mode }) => mode !== "force_custom_plan")) {
        const nodes = await plan(name, hot.values(), way, { ...hot, from });
        expect(readWhole(nodes)).toEqual([]);
        expect(indexes(nodes)).not.toContain("job_claim");
      }
    },
  );
});

/** Jobs, with some that run and some that have keys; and what was done before. */
async function fill(): Promise<void> {
  const [at, of] = [lane(), queue()];
  await bench.sql(
    `insert into jobs.job (id, run_at, lane, queue_id, kind, payload, worker, attempt, lease_until, key)
     select n, now() - (n % 1000) * interval '1 s' + case when n % 4 = 0 then interval '1 day' else '0' end,
       $1, $2, 'work', '{}', case when n <= 20 then 1 end, 1, case when n <= 20 then now() + interval '1 h' end,
       case when n % 10 = 0 then 'k' || n / 10 end
     from generate_series(1, ${ROWS}) n`,
    [at, of],
  );
  await bench.sql(
    `insert into jobs.done (id, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, state)
     select n, now(), now(), 1, $1, 0, $2, 1, 'work', 1 from generate_series(${2 * ROWS + 1}, ${2 * ROWS + DONE}) n`,
    [of, at],
  );
  await bench.sql(
    `insert into jobs.dead (id, created_at, run_at, worker, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
     select n, now(), now(), n % 1000, 1, $1, 1, 0, $2, 1, 'work', '{}', 'exhausted'
     from generate_series(${3 * ROWS + 1}, ${3 * ROWS + DONE}) n`,
    [of, at],
  );
  await bench.sql(
    `insert into jobs.attempt_error (job_id, started_at, attempt, worker, queue_id, generation, error)
     select n, now(), 1, 1, $1, 1, '{}' from generate_series(${2 * ROWS + 1}, ${2 * ROWS + DONE}) n`,
    [of],
  );
  await bench.sql(
    `insert into jobs.event (job_id, attempt, queue_id, generation, event)
     select n, 1, $1, 1, 'snoozed' from generate_series(${2 * ROWS + 1}, ${2 * ROWS + DONE}) n`,
    [of],
  );
  await bench.sql(
    `insert into jobs.job_log (job_id, logged_at, attempt, line, queue_id, text)
     select n, now(), 1, 1, $1, 'line' from generate_series(${2 * ROWS + 1}, ${2 * ROWS + DONE}) n`,
    [of],
  );
  await bench.sql(
    `insert into jobs.dedup (queue_id, kind, key, job_id, expires_at)
     select $1, 'work', 'w' || n, n, now() + case when n <= 20 then '-1 h' else '1 day' end::interval
     from generate_series(1, ${ROWS}) n`,
    [of],
  );
  // Twenty are due.
  await bench.sql(
    `insert into jobs.schedule (name, queue_id, lane, kind, cron, time_zone, overlap, misfire, payload, next_at, last_job)
     select 'schedule ' || n, $1, $2, 'work', '* * * * *', 'UTC', 'skip', 'one', '{}',
       case when n <= 20 then $3::timestamptz else now() + interval '1 day' end, 77
     from generate_series(1, ${SEVERAL}) n`,
    [of, at, DUE],
  );
  await bench.sql(
    `insert into jobs.subscription (event, kind, queue, priority, service)
     select 'event ' || n / 4, 'kind ' || n, 'default', 0, 'spec' from generate_series(1, ${SEVERAL}) n`,
  );
  await bench.sql(
    `insert into jobs.control (worker, queue_id, job_id, attempt)
     select 100 + n % 50, $1, n, 1 from generate_series(1, ${DONE}) n`,
    [of],
  );
  await bench.sql(
    `insert into jobs.stat_delta (queue_id, lane, state, day, n)
     select $1, $2, 5, 'epoch', 1 from generate_series(1, ${DONE}) n`,
    [of, at],
  );
}

describe("what the upkeep sends through the front", () => {
  /** Relations that are read whole. */
  async function wholly(name: string, values: string): Promise<(string | undefined)[]> {
    const statement = all.find((one) => one.name === name)!;
    const found: (string | undefined)[] = [];
    // On one connection, behind a pooler too.
    await bench.session("front").transaction(async (on) => {
      const run = async (text: string) => await on(new actual.Statement(null, () => text));
      await run(`prepare it as ${statement.text(bench.schema)}`);
      for (const mode of ["force_custom_plan", "force_generic_plan"]) {
        await run(`set local plan_cache_mode = ${mode}`);
        const [row] = await run(`explain (format json) execute it (${values})`);
        const walk = (node: PlanNode) => {
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
    const read = await wholly("prune_progress", "0, 0, 5000");
    // The catalogs, and days to come, in which there is nothing.
    const whole = ["progress", "job", "dead", "dead_archive", `done_${TODAY}`];
    expect(read.filter((name) => whole.includes(name!))).toEqual([]);
  });

  it("to forget workers reads no dead letters whole", async () => {
    const read = await wholly("forget_workers", "604800000");
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
