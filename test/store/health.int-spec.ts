import { JobInspector } from "nestjs-pg-jobs";
import { health } from "../../libs/jobs/src/store/reads/stats.js";
import { Bench } from "../support/harness.js";
import { type PlanNode, explaining } from "../support/plans.js";

// How a queue is doing, over many kinds: what it looks at is bounded for the queue, not for each of its kinds.

const looked = (nodes: readonly PlanNode[]) =>
  nodes
    .filter((node) => node["Relation Name"] === "job")
    .reduce(
      (sum, node) =>
        sum + (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"],
      0,
    );

let bench: Bench;
let inspector: JobInspector;
beforeAll(async () => {
  bench = await Bench.open();
  inspector = (await bench.app([bench.root()])).get(JobInspector);
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  await bench.sql("truncate jobs.job");
  await bench.sql("delete from jobs.lane");
  await bench.sql("delete from jobs.queue");
});

/** So many jobs of each kind, the oldest of the first kind first. */
async function wait(queue: string, kinds: number, each: number): Promise<void> {
  await bench.sql("insert into jobs.queue (name) values ($1)", [queue]);
  await bench.sql(
    `insert into jobs.lane (queue_id, id, kind, priority)
     select q.id, n, 'k' || n, 0 from jobs.queue q, generate_series(0, $2::integer - 1) n where q.name = $1`,
    [queue, kinds],
  );
  await bench.sql(
    `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
     select q.id * 1000000 + n, now() - interval '1 hour' + n * interval '1 ms', n / $3::integer, q.id, 'k' || n / $3::integer, '{}'
     from jobs.queue q, generate_series(0, $2::integer * $3::integer - 1) n where q.name = $1`,
    [queue, kinds, each],
  );
}

const oldest = async (): Promise<string> => {
  const [row] = await bench.sql<{ id: string }>(
    "select queue_id || '-' || id as id from jobs.job where lease_until is null or lease_until < now() order by run_at, id limit 1",
  );
  return row!.id;
};

it.each([
  [50, 2_000],
  [1_000, 100],
])("over %i kinds with %i jobs each it looks at some 20,000", async (kinds, each) => {
  await wait("many", kinds, each);
  for (const how of ["never analysed", "analysed"]) {
    if (how === "analysed") await bench.sql("analyze jobs.job");
    const { runner, plans } = explaining(bench.session("aside"));
    const [seen] = await health(runner, null);
    expect(seen).toMatchObject({ backlog: 10_001, expiredLeases: 0, oldestJob: await oldest() });
    expect(looked(plans[0]!)).toBeLessThanOrEqual(20_001 + 20 * kinds);
  }
});

it("finds the oldest that could run, however late its kind comes, and whatever runs before it", async () => {
  await wait("many", 50, 2_000);
  // The last kind is the oldest one, and its first hundred run.
  await bench.sql(`update jobs.job set run_at = run_at - interval '1 hour' where lane = 49`);
  await bench.sql(
    `update jobs.job set lease_until = now() + interval '1 hour'
     where id in (select id from jobs.job where lane = 49 order by run_at limit 100)`,
  );
  const [seen] = await inspector.health();
  expect(seen).toMatchObject({ backlog: 10_001, expiredLeases: 0, oldestJob: await oldest() });
  expect(seen!.lagMs).toBeGreaterThan(3_600_000);
  expect(seen!.lagMs).toBeLessThan(7_300_000);
});

it("counts what it can, of each queue by itself, quarantined jobs too", async () => {
  await wait("a", 3, 500);
  await wait("b", 2, 4_000);
  await wait("none", 0, 0);
  await bench.sql(`update jobs.job set lane = lane + 20000 where kind = 'k2'`);
  await bench.sql(
    `update jobs.job set lease_until = now() + case when id % 2 = 0 then interval '1 hour' else interval '-1 hour' end where id % 100 < 10`,
  );
  const expected = await bench.sql(
    `select q.name as queue, count(j.id) filter (where j.lease_until is null or j.lease_until < now())::integer as backlog,
       count(j.id) filter (where j.lease_until < now())::integer as "expiredLeases",
       (array_agg(j.queue_id || '-' || j.id order by j.run_at, j.id) filter (where j.lease_until is null or j.lease_until < now()))[1] as "oldestJob"
     from jobs.queue q left join jobs.job j on j.queue_id = q.id group by q.name order by q.name`,
  );
  expect(await inspector.health()).toEqual(
    expected.map((one) => expect.objectContaining(one) as unknown),
  );
  expect(await inspector.health(["b"])).toHaveLength(1);
});
