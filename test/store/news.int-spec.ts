import { newLines, whereabouts } from "../../libs/jobs/src/store/reads/news.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { explaining } from "../support/plans.js";

// What those who follow jobs ask once a second: it must not grow with what else is there.

let bench: Bench;
let hands: Hands;
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
});
afterAll(async () => await bench.close());

it("looks at the jobs that are followed, and at their new lines, by index", async () => {
  const JOBS = 20_000;
  await bench.sql(
    `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
     select 5000000 + i, now(), $1, $2, 'work', '{}' from generate_series(1, ${JOBS}) i`,
    [hands.lane, hands.queueId],
  );
  await bench.sql(
    `insert into jobs.progress (job_id, reported_at, percent, attempt, queue_id)
     select 5000000 + i, now(), 50, 1, $1 from generate_series(1, ${JOBS}) i`,
    [hands.queueId],
  );
  await bench.sql(
    `insert into jobs.job_log (job_id, logged_at, attempt, line, queue_id, text)
     select 5000000 + i, now(), 1, n, $1, 'line ' || n from generate_series(1, ${JOBS}) i, generate_series(1, 5) n`,
    [hands.queueId],
  );
  const followed = Array.from({ length: 40 }, (_, i) => ({
    queueId: hands.queueId,
    number: `${5_000_001 + i * 400}`,
    after: { attempt: 1, line: i % 2 ? 3 : 5 },
  }));
  const { runner, plans } = explaining(bench.session("aside"));
  const found = await whereabouts(runner, followed);
  expect([...found.values()].every(({ progress }) => progress?.percent === 50)).toBe(true);
  expect(found.size).toBe(followed.length);
  const lines = await newLines(runner, followed, 100);
  expect(lines.map((some) => some.map(({ line }) => line))).toEqual(
    followed.map((_, i) => (i % 2 ? [4, 5] : [])),
  );
  expect(plans).toHaveLength(2);
  for (const node of plans.flat()) {
    expect(node["Node Type"]).not.toBe("Seq Scan");
    if (node["Relation Name"])
      expect(node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)).toBeLessThanOrEqual(40);
  }
});

it("leaves out what is nowhere, and takes no more lines than asked for", async () => {
  await bench.sql(
    `insert into jobs.job_log (job_id, logged_at, attempt, line, queue_id, text)
     select 7, now(), a, n, $1, 'line' from generate_series(1, 2) a, generate_series(1, 3) n`,
    [hands.queueId],
  );
  const nowhere = { queueId: hands.queueId, number: "7", after: { attempt: 1, line: 1 } };
  expect(await whereabouts(hands.session, [nowhere])).toEqual(new Map());
  const [lines] = await newLines(hands.session, [nowhere], 3);
  expect(lines!.map(({ attempt, line }) => [attempt, line])).toEqual([
    [1, 2],
    [1, 3],
    [2, 1],
  ]);
});
