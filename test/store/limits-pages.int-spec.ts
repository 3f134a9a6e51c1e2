import type { Session } from "../../libs/jobs/src/pg/session.js";
import { sweep } from "../../libs/jobs/src/store/limits/sweep.js";
import type { Hands } from "../support/hands.js";
import { Bench } from "../support/harness.js";
import { Limited, idsOf } from "../support/limited.js";
import { explaining, pages } from "../support/plans.js";

// What a claim and a sweep go through, whatever the statistics say.

let bench: Bench;
let limited: Limited;
let hands: Hands;
let session: Session;
beforeEach(async () => {
  bench = await Bench.open();
  limited = await Limited.open(bench);
  ({ hands, session } = limited);
});
afterEach(async () => await bench.close());

const limit: Limited["limit"] = async (...of) => await limited.limit(...of);
const take: Limited["take"] = async (...of) => await limited.take(...of);
const done: Limited["done"] = async (...of) => await limited.done(...of);

// What a function does inside is not shown by its plan, but counted by it.
describe.each([
  ["never analysed", undefined],
  ["analysed", "all"],
  ["vacuumed when there was none", 0],
] as const)(
  "beside 20,000 jobs that wait for their key, and as many that do not, %s",
  (_, seen) => {
    const TABLES = ["job", "parked", "slot", "bucket", "key_pause", "limit_rule", "queue", "lane"];
    const MANY = 20_000;

    it("a claim and a sweep go through few pages", async () => {
      await bench.sql("alter table jobs.job set (autovacuum_enabled = off)");
      await limit([{ max: 50 }, { keyPath: "tenant", max: 2 }]);
      await bench.sql(
        `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
       select n, now() - interval '1 h' + n * interval '10 ms', $1::integer + case when n <= $3 then 10000 else 0 end, $2, 'work',
         jsonb_build_object('tenant', case when n <= $3 then 'hot' else 't' || n % 1000 end)
       from generate_series(1, 2 * $3::integer) n`,
        [hands.lane, hands.queueId, MANY],
      );
      await bench.sql(
        `insert into jobs.parked (queue_id, job_id, limit_id, key, priority, run_at)
       select j.queue_id, j.id, r.id, 'hot', case when j.id > $1 - 10 then 1 else 0 end, j.run_at
       from jobs.job j join jobs.limit_rule r on r.key_path = 'tenant' where j.id <= $1`,
        [MANY],
      );
      for (const table of TABLES) if (seen !== undefined) await bench.sql(`analyze jobs.${table}`);
      if (seen === 0)
        await bench.sql(
          `update pg_class set reltuples = 0 where oid = any(
           select unnest(array[c.oid] || array(select i.indexrelid from pg_index i where i.indrelid = c.oid))
           from pg_class c where c.relnamespace = $1::regnamespace and c.relname = any($2))`,
          [bench.schema, TABLES],
        );
      // One of the key has ended: the next one of it is fetched.
      await bench.sql("update jobs.job set lane = lane % 10000 where id = 1");
      await bench.sql("delete from jobs.parked where job_id = 1");
      const hot = await take({ room: 1 });
      expect(idsOf(hot)).toEqual(["1"]);
      await done(hot.claims);
      const { runner, plans } = explaining(session);
      const found = await take({ room: 20, depth: 20, over: idsOf(hot), on: runner });
      expect(found.claims).toHaveLength(20);
      // The last ones of their lane: who looked for them there would have gone through all.
      expect(found.picked).toEqual(new Set([MANY - 9, MANY - 8].map(String)));
      expect(pages(plans[0]!)).toBeLessThan(500);
      const swept = explaining(bench.session("aside"));
      await sweep(swept.runner, hands.queueId);
      expect(pages(swept.plans[0]!)).toBeLessThan(400);
    });
  },
);
