import pg from "pg";
import { perSecond, rate, ratio } from "./ground.mjs";
import { drain, sessionWith } from "./drain.mjs";

const ROUND = 10_000;
const WITH_CURSOR = 30;
const WITHOUT = 10;

/** A transaction that stays open keeps every finished job's row in the index: who scans from the start walks them all. */
export async function measureHorizon(ground) {
  const unpinned = await rounds(ground, { pinned: false, cursor: true, count: 10 });
  const pinned = await rounds(ground, { pinned: true, cursor: true, count: WITH_CURSOR });
  const without = await rounds(ground, { pinned: true, cursor: false, count: WITHOUT });
  const base = average(unpinned.slice(0, 10));
  const row = (name, rates, from, to) => [
    name,
    perSecond(average(rates.slice(from, to))),
    `${ratio(average(rates.slice(from, to)), base)} ×`,
  ];
  return {
    title: "Pinned horizon",
    why: `Rounds of ${ROUND / 1_000}k jobs, enqueued and drained at batch 100, while a REPEATABLE READ transaction stays open. Jobs a second, enqueue included.`,
    header: ["what", "jobs", "against nothing pinned"],
    rows: [
      row("nothing pinned, first 100k jobs", unpinned, 0, 10),
      row("pinned, first 100k", pinned, 0, 10),
      row("pinned, 100k–200k", pinned, 10, 20),
      row("pinned, 200k–300k", pinned, 20, 30),
      row("pinned, no cursor, first 20k", without, 0, 2),
      row("pinned, no cursor, 80k–100k", without, 8, 10),
    ],
  };
}

async function rounds(ground, { pinned, cursor, count }) {
  await ground.clear();
  const pin = new pg.Client(ground.url);
  await pin.connect();
  if (pinned)
    await pin.query("begin isolation level repeatable read; select 1 from jobs.job limit 1");
  const [claims, settles] = [
    await sessionWith(ground, "claim"),
    await sessionWith(ground, "settle"),
  ];
  const memory = cursor ? {} : { cursor: null };
  if (cursor) memory.cursor = new (await import("../../libs/jobs/dist/worker/cursor.js")).Cursor();
  const rates = [];
  for (let round = 0; round < count; round++) {
    rates.push(
      await rate(ROUND, async () => {
        await ground.fill(ROUND);
        await drain(ground, { claims, settles, count: ROUND, batch: 100, ...memory });
      }),
    );
  }
  await pin.query("rollback").catch(() => {});
  await pin.end();
  await ground.database.release(claims);
  await ground.database.release(settles);
  return rates;
}

const average = (numbers) => numbers.reduce((sum, n) => sum + n, 0) / numbers.length;
