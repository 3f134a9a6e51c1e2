import { JobBulk, JobInspector } from "nestjs-pg-jobs";
import { AdminApp, said } from "../support/admin-app.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { until } from "../support/until.js";

// Searches in errors and payloads, however large these are: they answer in time, and keep nobody else waiting.

const JOBS = 1_500;
const PAYLOADS = 600;
/** Of a page: half a second, and what a busy machine takes for the rest. */
const PAGE_MS = 3_000;

let bench: Bench;
let admin: AdminApp;
let hands: Hands;
const nearTheOldest = new Date(Date.now() - 3_600_000 + 10_000);
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  admin = await AdminApp.open(bench);
  await bench.sql(
    `insert into jobs.job (id, created_at, run_at, lane, queue_id, kind, payload, failures, attempt)
     select n, $3::timestamptz - interval '10 s' + n * interval '10 ms', now() + interval '1 hour', $1, $2, 'fails', '{}', 20, 20
     from generate_series(1, ${JOBS}) n`,
    [hands.lane, hands.queueId, nearTheOldest],
  );
  // Taken from a row, each of them is copied as it is stored.
  await bench.sql(
    `create table jobs.seed as select jsonb_build_object('name', 'Error', 'message', 'boom', 'stack', repeat('at somewhere ', 20000)) as error,
       jsonb_build_object('to', 'ada', 'text', repeat('lorem ipsum ', 200000)) as payload`,
  );
  await bench.sql(
    `insert into jobs.attempt_error (job_id, attempt, queue_id, generation, error)
     select n, attempt, $1, 1, error from jobs.seed, generate_series(1, ${JOBS}) n, generate_series(1, 20) attempt`,
    [hands.queueId],
  );
  await bench.sql(
    `update jobs.attempt_error set error = error || '{"message": "the needle"}' where job_id in (1, 700) and attempt = 20`,
  );
  await bench.sql(
    `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
     select ${JOBS} + n, now() + interval '1 hour', $1, $2, 'large', payload from jobs.seed, generate_series(1, ${PAYLOADS}) n`,
    [hands.lane, hands.queueId],
  );
});
afterAll(async () => {
  await admin.close();
  await bench.close();
});

interface Page {
  items: { id: string }[];
  next: string | null;
  searchedBackTo: string | null;
}

async function timed<T>(work: Promise<T>): Promise<{ answer: T; ms: number }> {
  const from = performance.now();
  const answer = await work;
  return { answer, ms: performance.now() - from };
}

async function walk(query: string): Promise<{ ids: string[]; pages: Page[]; slowest: number }> {
  const ids: string[] = [];
  const pages: Page[] = [];
  let slowest = 0;
  for (let next: string | null = ""; next !== null;) {
    const after: string = next === "" ? "" : `&after=${next}`;
    const { answer, ms } = await timed(admin.get(`${query}${after}`));
    expect(answer.status).toBe(200);
    const page = answer.body as unknown as Page;
    pages.push(page);
    ids.push(...page.items.map(({ id }) => id));
    slowest = Math.max(slowest, ms);
    next = page.next;
  }
  return { ids, pages, slowest };
}

it("a search in many large errors answers in time, and goes on, where that is over, to the end", async () => {
  const { ids, pages, slowest } = await walk("jobs?error=needle");
  expect(ids).toEqual([hands.named("700"), hands.named("1")]);
  expect(slowest).toBeLessThan(PAGE_MS);
  for (const page of pages.slice(0, -1)) expect(page.searchedBackTo).toMatch(/^20.*Z$/);
});

it("a search in large payloads does, too", async () => {
  const { ids, slowest } = await walk("jobs?payload=to:nobody&kind=large");
  expect([ids, slowest < PAGE_MS]).toEqual([[], true]);
});

it("each turn looks into one job at least, however long that takes", async () => {
  await bench.sql(
    `insert into jobs.job (id, run_at, lane, queue_id, kind, payload)
     select ${JOBS + PAYLOADS} + n, now() + interval '1 hour', $1, $2, 'huge', jsonb_build_object('n', 7 + n, 'text', repeat('lorem ipsum ', 3000000))
     from generate_series(1, 4) n`,
    [hands.lane, hands.queueId],
  );
  const { ids } = await walk("jobs?payload=n:8&kind=huge");
  expect(ids).toEqual([hands.named(String(JOBS + PAYLOADS + 1))]);
});

it("a plain list looks into none", async () => {
  await admin.get("jobs?limit=1");
  const { ms } = await timed(admin.get("jobs?kind=nobody-knows"));
  expect(ms).toBeLessThan(500);
});

it("what a filter leaves out is not looked into", async () => {
  const { ids, pages } = await walk("jobs?error=needle&kind=nobody-knows");
  expect([ids, pages.length]).toEqual([[], 1]);
});

it("ten searches at once keep nobody waiting", async () => {
  const inspector = admin.app.get(JobInspector);
  let searching = true;
  const searches = Promise.all(
    Array.from({ length: 10 }, () => admin.get("jobs?error=needle")),
  ).finally(() => (searching = false));
  const waits: number[] = [];
  while (searching) waits.push((await timed(inspector.counts())).ms);
  for (const { status } of await searches) expect(status).toBe(200);
  expect(waits.length).toBeGreaterThan(5);
  expect(Math.max(...waits)).toBeLessThan(1_500);
});

it("refuses those that would wait behind too many others", async () => {
  const answers = await Promise.all(
    Array.from({ length: 25 }, () => admin.get("jobs?error=needle&limit=1")),
  );
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused.map(said)).toEqual([1, 2, 3].map(() => [503, "SEARCHES_BUSY"]));
  expect(refused[0]!.headers.get("retry-after")).toBe("5");
  expect((await admin.get("jobs?limit=1")).status).toBe(200);
  expect((await admin.get("jobs?error=needle&limit=1")).status).toBe(200);
});

it("a preview counts them all, while others look", async () => {
  const inspector = admin.app.get(JobInspector);
  const preview = admin.app
    .get(JobBulk)
    .preview({ action: "cancel", filter: { error: "boom", createdBefore: new Date() } });
  let counting = true;
  void preview.finally(() => (counting = false));
  const waits: number[] = [];
  while (counting) waits.push((await timed(inspector.counts())).ms);
  expect(await preview).toMatchObject({ count: JOBS, complete: true, sample: { length: 10 } });
  expect(Math.max(...waits)).toBeLessThan(1_500);
});

it("works off what was found in errors, however long the search", async () => {
  const filter = { error: "needle", createdBefore: nearTheOldest.toISOString() };
  const preview = await admin.post("bulk/preview", { body: { action: "cancel", ...filter } });
  expect(preview.body).toMatchObject({ count: 2, complete: true });
  const order = await admin.post("bulk", { body: { action: "cancel", expected: 2, ...filter } });
  expect(order.status).toBe(200);
  const over = await until(
    async () => {
      const { body } = await admin.get(`bulk/${String(order.body.id)}`);
      return body.state === "running" ? undefined : body;
    },
    { what: "it is over" },
  );
  expect(over).toMatchObject({ state: "done", changed: 2, refused: {} });
});

it.each(["jobs", "dead-letters"])("the end of all time is a time to %s", async (list) => {
  for (const time of ["9999-12-31T23:59:59.999Z", "9999-12-31T00:00:00Z", "9999-12-30T23:59:59Z"])
    for (const name of ["finishedSince", "finishedBefore", "createdSince", "createdBefore"])
      expect([name, time, (await admin.get(`${list}?${name}=${time}`)).status]).toEqual([
        name,
        time,
        200,
      ]);
  const body = { action: "requeue", finishedBefore: "9999-12-31T23:59:59.999Z" };
  expect((await admin.post("bulk/preview", { body })).body).toMatchObject({ complete: true });
});

it("says that the database gave a statement up", async () => {
  const client = await bench.client();
  await client.query(`begin; lock table ${bench.schema}.dead in access exclusive mode`);
  const answer = admin.get("jobs?state=dead");
  await until(
    async () => {
      const [row] = await bench.sql<{ done: boolean }>(
        `select pg_cancel_backend(pid) as done from pg_locks
         where not granted and relation = 'jobs.dead'::regclass`,
      );
      return row?.done;
    },
    { what: "it is cancelled" },
  );
  expect(said(await answer)).toEqual([503, "DATABASE_TOO_SLOW"]);
  expect((await answer).body.detail).toMatch(/gave the statement up: .* Narrow the filter/);
  await client.query("rollback");
  expect((await admin.get("jobs?state=dead")).status).toBe(200);
});
