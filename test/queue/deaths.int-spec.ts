import { JobInspector, OptionsError } from "nestjs-pg-jobs";
import { deaths } from "../../libs/jobs/src/store/reads/deaths.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { explaining, pages } from "../support/plans.js";

// What has died lately, and what it costs to know.

let bench: Bench;
let inspector: JobInspector;
beforeEach(async () => {
  bench = await Bench.open();
  inspector = (await bench.app([bench.root()])).get(JobInspector);
});
afterEach(async () => await bench.close());

async function letters({ queueId, lane, kind }: Hands, count: number, ago: string): Promise<void> {
  await bench.sql(
    `insert into jobs.dead (id, created_at, run_at, finished_at, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
     select coalesce((select max(id) from jobs.dead), 0) + n, now(), now(), now() - $5::interval, 1, $1, 1, 0, $2, 1, $3, '{}', 'exhausted'
     from generate_series(1, $4::integer) n`,
    [queueId, lane, kind, count, ago],
  );
}

it("counts by queue and kind, the most first, within the time that is asked for", async () => {
  const [a, b, c] = [
    await Hands.open(bench, "mail", "send"),
    await Hands.open(bench, "mail", "bounce"),
    await Hands.open(bench, "slow", "send"),
  ];
  await letters(a, 2, "10 minutes");
  await letters(b, 3, "59 minutes");
  await letters(b, 4, "61 minutes");
  await letters(c, 1, "1 minute");
  expect(await inspector.deaths()).toEqual([
    { queue: "mail", kind: "bounce", dead: 3 },
    { queue: "mail", kind: "send", dead: 2 },
    { queue: "slow", kind: "send", dead: 1 },
  ]);
  expect(await inspector.deaths("2m")).toEqual([{ queue: "slow", kind: "send", dead: 1 }]);
  expect(await inspector.deaths("1d")).toContainEqual({ queue: "mail", kind: "bounce", dead: 7 });
  for (const bad of [0, -1, "soon", Number.NaN, null])
    await expect(inspector.deaths(bad as never)).rejects.toBeInstanceOf(OptionsError);
});

it.each(["never analysed", "analysed"])(
  "%s, costs what has died lately and no more",
  async (how) => {
    const hands = await Hands.open(bench, "mail", "send");
    await letters(hands, 60_000, "2 hours");
    await letters(hands, 40, "10 minutes");
    if (how === "analysed") await bench.sql("analyze jobs.dead");
    const { runner, plans } = explaining(bench.session());
    expect(await deaths(runner, 3_600_000)).toEqual([{ queue: "mail", kind: "send", dead: 40 }]);
    expect(pages(plans[0]!)).toBeLessThan(100);
    await letters(hands, 20_000, "5 minutes");
    expect(await deaths(runner, 3_600_000)).toEqual([
      { queue: "mail", kind: "send", dead: 10_001 },
    ]);
    expect(pages(plans[1]!)).toBeLessThan(1_500);
  },
);
