import { listDeeds } from "../../libs/jobs/src/store/operators/audit.js";
import { abandoned, newest, takeUp } from "../../libs/jobs/src/store/operators/bulk.js";
import { answerRequest, takeRequest } from "../../libs/jobs/src/store/operators/requests.js";
import { deaths, died } from "../../libs/jobs/src/store/reads/deaths.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { type PlanNode, explaining, pages } from "../support/plans.js";

// What operators ask for does not grow with what lies there.

const ROWS = 100_000;
const TABLES = ["audit", "bulk", "request", "dead"];

let bench: Bench;
beforeAll(async () => {
  bench = await Bench.open();
  const hands = await Hands.open(bench);
  await bench.sql(
    `insert into jobs.audit (operator, role, action, target, outcome)
     select 'ann', 'admin', 'cancelJob', '1-' || n, 'done' from generate_series(1, ${ROWS}) n`,
  );
  await bench.sql(
    `insert into jobs.bulk (action, filter, expected, operator, state, finished_at)
     select 'cancel', '{}', 1, 'ann', case n when 77 then 'running' else 'done' end, now() from generate_series(1, ${ROWS}) n`,
  );
  await bench.sql(
    `insert into jobs.request (operator, key, asked, status) select 'ann', n::text, 'x', 200 from generate_series(1, ${ROWS}) n`,
  );
  await bench.sql(
    `insert into jobs.dead (id, created_at, run_at, finished_at, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
     select n, now(), now(), now() - case when n <= ${ROWS} - 3 then interval '1 day' else interval '1 s' end, 1, $1, 1, 0, $2, 1, 'work', '{}', 'seeded'
     from generate_series(1, ${ROWS}) n`,
    [hands.queueId, hands.lane],
  );
});
afterAll(async () => await bench.close());

const looked = (nodes: readonly PlanNode[]) =>
  nodes
    .filter((node) => TABLES.includes(node["Relation Name"] ?? ""))
    .reduce(
      (sum, node) =>
        sum + (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"],
      0,
    );

describe.each(["never analysed", "analysed"])("%s", (how) => {
  beforeAll(async () => {
    if (how === "analysed")
      for (const table of TABLES) await bench.sql(`analyze ${bench.schema}.${table}`);
  });

  /** What a call goes through, in rows of those tables and in pages. */
  async function cost(
    work: (runner: ReturnType<typeof explaining>["runner"]) => Promise<unknown>,
  ): Promise<{ rows: number; pages: number }> {
    const { runner, plans } = explaining(bench.session("front"));
    await work(runner);
    return {
      rows: Math.max(...plans.map(looked)),
      pages: Math.max(...plans.map(pages)),
    };
  }

  const nothing = { operator: null, action: null, target: null };

  it("a page of the audit stops with the page, or after 20,000", async () => {
    const page = await cost((runner) => listDeeds(runner, nothing, 50, null));
    expect(page.rows).toBeLessThanOrEqual(60);
    const rare = { ...nothing, target: "1-5" };
    const walk = await cost((runner) => listDeeds(runner, rare, 50, null));
    // PostgreSQL 14 reads one ahead of the bound.
    expect(walk.rows).toBeLessThanOrEqual(20_001);
    expect(walk.pages).toBeLessThan(1_000);
  });

  it("operations on many jobs are found by what they are", async () => {
    expect((await cost((runner) => abandoned(runner))).rows).toBeLessThanOrEqual(2);
    expect((await cost((runner) => newest(runner, null, 50))).rows).toBeLessThanOrEqual(60);
    expect((await cost((runner) => takeUp(runner, "77", "me"))).rows).toBeLessThanOrEqual(5);
  });

  it("a request is found by its key, and the old ones by their age", async () => {
    const mine = { operator: "ann", key: `new-${how}` };
    expect((await cost((runner) => takeRequest(runner, mine, "y"))).rows).toBeLessThanOrEqual(5);
    const answer = await cost((runner) => answerRequest(runner, mine, "1", 200, {}));
    expect(answer.rows).toBeLessThanOrEqual(2);
  });

  it("who has lately died is found by the time", async () => {
    const since = new Date(Date.now() - 60_000).toISOString();
    const found = await died(bench.session("aside"), since, 200);
    expect(found).toMatchObject({ complete: true, items: [{}, {}, {}] });
    expect((await died(bench.session("aside"), null, 200)).items).toEqual([]);
    expect((await cost((runner) => died(runner, since, 200))).rows).toBeLessThanOrEqual(20);
    expect((await cost((runner) => deaths(runner, 60_000))).rows).toBeLessThanOrEqual(10);
  });
});
