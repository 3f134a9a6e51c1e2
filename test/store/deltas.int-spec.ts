import { JobInspector } from "nestjs-pg-jobs";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import { look } from "../../libs/jobs/src/store/queues/look.js";
import { Deltas } from "../../libs/jobs/src/store/upkeep/deltas.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { explaining, pages } from "../support/plans.js";

// Deltas that were rolled up stay in the table as long as somebody's transaction pins the horizon, millions in an hour.
// Neither a look nor a roll-up walks them each time.

const DEAD = 900_000;

describe("under a pinned horizon", () => {
  let bench: Bench;
  let hands: Hands;
  let claims: Session;
  let front: Session;
  const deltas = new Deltas();
  beforeAll(async () => {
    bench = await Bench.open();
    hands = await Hands.open(bench);
    [claims, front] = [bench.session("claim"), bench.session("front")];
    const pin = await bench.client();
    await pin.query("begin isolation level repeatable read");
    await pin.query("select 1");
    await write(DEAD);
    await deltas.rollUp(front);
    // Not those of whoever looks first: it marks each row as dead.
    await bench.sql("select count(*) from jobs.stat_delta");
  });
  afterAll(async () => await bench.close());

  const write = async (deltas: number) =>
    await bench.sql(
      `insert into jobs.stat_delta (queue_id, lane, state, day, n)
       select $1, $2, 5, 'epoch', 1 from generate_series(1, $3::integer)`,
      [hands.queueId, hands.lane, deltas],
    );
  const left = async () =>
    (await bench.sql<{ n: number }>("select count(*)::int as n from jobs.stat_delta"))[0]!.n;
  const length = async () =>
    (
      await bench.sql<{ n: number }>(
        "select (pg_relation_size('jobs.stat_delta') / 8192)::int as n",
      )
    )[0]!.n;
  const due = async (ago = "0") =>
    await bench.sql("update jobs.chore set due_at = now() - $1::interval where name = 'rollup'", [
      ago,
    ]);
  /** Whether a look finds the roll-up worth its turn, and through how many pages it goes for that. */
  const looked = async () => {
    const { runner, plans } = explaining(claims);
    const { chores } = await look(runner, [hands.queueId], [], {
      takeOver: true,
      schedules: false,
    });
    return { worth: chores.includes("rollup"), pages: pages(plans[0]!) };
  };

  it("a look walks the end of the table only", async () => {
    expect(await length()).toBeGreaterThan(5_000);
    await due();
    const none = await looked();
    expect(none.worth).toBe(false);
    expect(none.pages).toBeLessThan(1_100);
    await write(1);
    const one = await looked();
    expect(one.worth).toBe(true);
    expect(one.pages).toBeLessThan(1_100);
  });

  it("a roll-up begins where the last one has ended, and leaves nothing that was written since", async () => {
    await write(30_000);
    const { runner, plans } = explaining(front);
    await deltas.rollUp(runner);
    expect(await left()).toBe(0);
    const scans = plans.flat().filter((node) => node["Relation Name"] === "stat_delta");
    expect(new Set(scans.map((node) => node["Node Type"]))).toEqual(
      new Set(["Tid Range Scan", "Tid Scan", "ModifyTable"]),
    );
    const walked = scans.filter((node) => node["Node Type"] === "Tid Range Scan");
    expect(walked.reduce((sum, node) => sum + pages([node]), 0)).toBeLessThan(2_000);
  });

  it("what lies before is found when nobody has had the turn for a minute", async () => {
    // Committed late: it was there all the while.
    const late = await bench.client();
    await late.query("begin");
    await late.query(
      `insert into ${bench.schema}.stat_delta (queue_id, lane, state, day, n) values ($1, $2, 5, 'epoch', 7)`,
      [hands.queueId, hands.lane],
    );
    await write(1_000_000);
    await deltas.rollUp(front);
    await late.query("commit");
    late.release();
    await deltas.rollUp(front);
    expect(await left()).toBe(1);
    await due();
    expect((await looked()).worth).toBe(false);
    await due("61 s");
    expect(await looked()).toMatchObject({ worth: true });
    // Another process knows nothing of where it was looked before.
    const { runner, plans } = explaining(front);
    await new Deltas().rollUp(runner);
    expect(await left()).toBe(0);
    expect(Math.max(...plans.map(pages))).toBeLessThan(4_500);
  });

  it("counts are exact all the while", async () => {
    const inspector = (await bench.app([bench.root()])).get(JobInspector);
    const [found] = await inspector.counts();
    expect(found).toMatchObject({ pruned: DEAD + 1 + 30_000 + 7 + 1_000_000 });
  });

  it("a table that was emptied is walked from its beginning", async () => {
    await bench.sql("truncate jobs.stat_delta");
    await write(1);
    await deltas.rollUp(front);
    await deltas.rollUp(front);
    expect(await left()).toBe(0);
  });
});
