import { median, perSecond, rate, ratio } from "./ground.mjs";
import { drain, sessionWith } from "./drain.mjs";

const RUNS = 3;
const JOBS = 40_000;
/** As the migration has it. */
const FILLFACTOR = 45;

const VARIANTS = {
  "as it is, batch 100": { batch: 100 },
  "as it is, batch 500": { batch: 500 },
  "as it is, batch 10": { batch: 10, jobs: 8_000 },
  "claims committed synchronously, batch 100": { batch: 100, claims: { synchronous_commit: "on" } },
  "plans not forced generic, batch 100": {
    batch: 100,
    claims: { plan_cache_mode: "auto" },
    settles: { plan_cache_mode: "auto" },
  },
  "fillfactor 50, batch 100": { batch: 100, fillfactor: 50 },
  "fillfactor 100, batch 100": { batch: 100, fillfactor: 100 },
};

/** What each choice of the claim and the settle is worth. */
export async function measureClaims(ground) {
  const rates = new Map(Object.keys(VARIANTS).map((name) => [name, []]));
  const wal = new Map(Object.keys(VARIANTS).map((name) => [name, []]));
  for (let run = 0; run < RUNS; run++) {
    for (const [name, variant] of Object.entries(VARIANTS))
      await once(ground, variant, rates.get(name), wal.get(name));
  }
  const base = median(rates.get("as it is, batch 100"));
  const hot = await hotShare(ground);
  return {
    title: "Claim and settle",
    why: `A backlog of ${JOBS / 1_000}k jobs, history kept, one claiming and one settling connection, bare statements. Claims that were HOT updates: ${hot}.`,
    header: ["what", "jobs", "against the first row", "WAL bytes a job"],
    rows: Object.keys(VARIANTS).map((name) => [
      name,
      perSecond(median(rates.get(name))),
      `${ratio(median(rates.get(name)), base)} ×`,
      Math.round(median(wal.get(name))),
    ]),
  };
}

async function once(
  ground,
  { batch, jobs = JOBS, claims = {}, settles = {}, fillfactor = FILLFACTOR },
  rates,
  wal,
) {
  await ground.clear();
  await ground.admin.query(`alter table jobs.job set (fillfactor = ${fillfactor})`);
  await ground.fill(jobs);
  await ground.analyse();
  const claiming = await sessionWith(ground, "claim", claims);
  const settling = await sessionWith(ground, "settle", settles);
  const bytes = await ground.wal(async () =>
    rates.push(
      await rate(jobs, () =>
        drain(ground, { claims: claiming, settles: settling, count: jobs, batch }),
      ),
    ),
  );
  wal.push(bytes / jobs);
  await ground.database.release(claiming);
  await ground.database.release(settling);
  await ground.admin.query(`alter table jobs.job set (fillfactor = ${FILLFACTOR})`);
}

/** Of a fresh drain with the real settings. */
async function hotShare(ground) {
  await ground.clear();
  await ground.admin.query("select pg_stat_reset_single_table_counters('jobs.job'::regclass)");
  await ground.fill(20_000);
  const [claims, settles] = [
    await sessionWith(ground, "claim"),
    await sessionWith(ground, "settle"),
  ];
  await drain(ground, { claims, settles, count: 20_000, batch: 100 });
  await ground.database.release(claims);
  await ground.database.release(settles);
  await ground.admin.query("select pg_stat_force_next_flush()");
  const { rows } = await ground.admin.query(
    "select n_tup_upd::int as all, n_tup_hot_upd::int as hot from pg_stat_user_tables where relid = 'jobs.job'::regclass",
  );
  return `${rows[0].hot} of ${rows[0].all}`;
}
