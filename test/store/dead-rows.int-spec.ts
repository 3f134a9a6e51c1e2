import { look } from "../../libs/jobs/src/store/queues/look.js";
import { health } from "../../libs/jobs/src/store/reads/stats.js";
import { claim } from "../../libs/jobs/src/store/transitions/claim.js";
import { from, Hands } from "../support/hands.js";
import { Bench } from "../support/harness.js";
import { explaining, pages } from "../support/plans.js";

// While somebody's snapshot is held, the rows of jobs that are over stay where they were: in the table, and in the index
// that claims walk. What begins at its place meets none of them.

const DEAD = 60_000;

describe(`behind ${DEAD} rows that a held snapshot keeps`, () => {
  let bench: Bench;
  let hands: Hands;
  let worker: number;
  let at: string;
  beforeAll(async () => {
    bench = await Bench.open();
    hands = await Hands.open(bench);
    worker = await hands.worker();
    await bench.sql("alter table jobs.job set (autovacuum_enabled = off)");
    await bench.sql(
      `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
       select n, now() - interval '1 h' + n * interval '10 ms', $1, $2, 'work', '{}' from generate_series(1, ${DEAD}) n`,
      [hands.lane, hands.queueId],
    );
    const snapshot = await bench.client();
    await snapshot.query("begin isolation level repeatable read");
    await snapshot.query(`select 1 from ${bench.schema}.job limit 1`);
    await bench.sql("delete from jobs.job");
    await bench.sql("vacuum jobs.job");
    for (let n = 0; n < 20; n++) await hands.addMany(10);
    const [row] = await bench.sql<{ at: string }>("select min(run_at)::text as at from jobs.job");
    at = row!.at;
  });
  afterAll(async () => await bench.close());

  /** Pages that a claim of 50 jobs goes through, beginning there. */
  async function claimed(place: { at: string; backMs: number }): Promise<number> {
    const { runner, plans } = explaining(bench.session("claim"));
    const claims = await claim(runner, {
      queueId: hands.queueId,
      version: await hands.version(),
      lanes: [from(hands.lane, { ...place, room: 50 })],
      room: 50,
      leaseMs: 60_000,
      worker,
      takeOverUntil: "-infinity",
    });
    expect(claims).toHaveLength(50);
    return pages(plans[0]!);
  }

  it("a claim at its place walks none of them, nor does one that looks back a second", async () => {
    const there = await claimed({ at, backMs: 1_000 });
    expect(there).toBeLessThan(700);
    const fromStart = await claimed({ at: "-infinity", backMs: 0 });
    expect(fromStart).toBeGreaterThan(3 * there);
  });

  it("health walks them once", async () => {
    const { runner, plans } = explaining(bench.session("aside"));
    const [seen] = await health(runner, null);
    const [free] = await bench.sql<{ n: number; oldest: string }>(
      `select count(*)::integer as n, (array_agg(queue_id || '-' || id order by run_at, id))[1] as oldest
       from jobs.job where lease_until is null`,
    );
    expect(seen).toMatchObject({ backlog: free!.n, expiredLeases: 0, oldestJob: free!.oldest });
    expect(seen!.lagMs).toBeGreaterThan(0);
    const walk = explaining(bench.session("claim"));
    const lanes = [{ queueId: hands.queueId, lane: hands.lane, at: "-infinity", backMs: 0 }];
    await look(walk.runner, [hands.queueId], lanes, { takeOver: false, schedules: false });
    expect(pages(plans[0]!)).toBeLessThan(1.5 * pages(walk.plans[0]!));
  });

  it("a look at its place walks none of them", async () => {
    const seen = async (place: string) => {
      const { runner, plans } = explaining(bench.session("claim"));
      const lanes = [{ queueId: hands.queueId, lane: hands.lane, at: place, backMs: 1_000 }];
      const found = await look(runner, [hands.queueId], lanes, {
        takeOver: false,
        schedules: true,
      });
      expect(found.due.get(hands.queueId)).toBeLessThanOrEqual(0);
      return pages(plans[0]!);
    };
    const there = await seen(at);
    expect(there).toBeLessThan(300);
    expect(await seen("-infinity")).toBeGreaterThan(3 * there);
  });
});
