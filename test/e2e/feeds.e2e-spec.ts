import { Logger } from "@nestjs/common";
import { jest } from "@jest/globals";
import { JobInspector } from "nestjs-pg-jobs";
import { readFileSync } from "node:fs";
import path from "node:path";
import { FeedServer, feedOf, overloaded } from "../support/feed-server.js";
import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps, asAdmin } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The story of the feeds: read at each tick, retried on listed errors only, each item stored once, and all of it told
// by SQL and by the API. The ticks are a second apart here.

/** The queries of the page, as they stand there. */
const page = readFileSync(path.join(import.meta.dirname, "../../docs/feeds.md"), "utf8");
const queries = [...page.matchAll(/```sql\n([^]*?)```/g)].map(([, sql]) => sql!);

interface Run {
  id: string;
  state: string;
  attempt: number;
  failures: number;
  last_error: string | null;
  result: { items: number; stored: number } | null;
}

let bench: Bench;
let server: FeedServer;
let apps: SampleApps;
let api: HttpApp;
let admin: HttpApp;
let inspector: JobInspector;
let away: string;
let recovers: string;
let malformed: string;
let missing: string;
let huge: string;
let slow: string;
let slowGoesOn: () => void;
let hangs: string;
const lines: unknown[][] = [];

beforeAll(async () => {
  bench = await Bench.open();
  server = await FeedServer.start();
  const held = new Promise<void>((resolve) => (slowGoesOn = resolve));
  away = server.add("away", overloaded);
  recovers = server.add("recovers", (response, asked) => {
    if (asked === 1) overloaded(response);
    else if (asked === 2) response.destroy(); // it breaks off
    else response.end(asked === 3 ? feedOf("a", "b", "c") : feedOf("b", "c", "d"));
  });
  malformed = server.add("malformed", (response) => response.end('{"items":[{"id":7}]}'));
  missing = server.add("missing", (response) => response.writeHead(404).end());
  huge = server.add("huge", (response) => response.end(feedOf("x".repeat(2_000_000))));
  slow = server.add("slow", (response) => void held.then(() => response.end(feedOf("late"))));
  hangs = server.add("hangs", (response) => void response.writeHead(200).write("{"));
  Object.assign(process.env, {
    FEED_SOURCES: [away, recovers, malformed, missing, huge, slow, hangs].join(","),
    FEED_CRON: "* * * * * *",
    FEED_ATTEMPTS: "4",
    FEED_BACKOFF: "linear",
    FEED_RETRY_DELAY: "100ms",
    FEED_RETRY_MAX: "150ms",
    FEED_TIMEOUT: "8s",
  });
  apps = new SampleApps(bench.schema);
  api = await apps.api();
  admin = await apps.admin();
  inspector = api.app.get(JobInspector);
  jest
    .spyOn(Logger.prototype, "log")
    .mockImplementation((...said: unknown[]) => void lines.push(said));
  await apps.worker();
});
afterAll(async () => {
  jest.restoreAllMocks();
  await apps.close();
  await server.close();
  await bench.close();
});

/** The jobs of a source, oldest first. */
const runs = async (source: string) =>
  await bench.sql<Run>(
    `select id, state, attempt, failures, last_error, result from jobs.job_status
     where kind = 'feed.read' and payload ->> 'source' = $1 order by number`,
    [source],
  );

const first = async (source: string, state: string): Promise<Run> =>
  await until(async () => (await runs(source)).find((run, n) => n === 0 && run.state === state), {
    what: `the first job of ${source} is ${state}`,
  });

/** Its story by the API, by the inspector and by the query of the page: the same. */
async function story(id: string) {
  const told = await inspector.history(id);
  expect((await admin.get(`/admin/jobs/${id}/history`, asAdmin)).body).toEqual(told);
  const [queue, number] = id.split("-");
  const sql = queries
    .find((text) => text.includes("job_event"))!
    .replace("queue_id = 1", `queue_id = ${queue}`)
    .replace("number = 1024", `number = ${number}`);
  const rows = await bench.sql<{ event: string; attempt: number }>(sql);
  expect(rows.map(({ event, attempt }) => [event, attempt])).toEqual(
    told.map(({ event, attempt }) => [event, attempt]),
  );
  return told;
}

describe("a feed", () => {
  it("whose source is away twice is retried, and its items are stored once", async () => {
    const { id, failures, result } = await first(recovers, "succeeded");
    expect({ failures, result }).toEqual({ failures: 2, result: { items: 3, stored: 3 } });
    const events = await story(id);
    expect(events.map(({ event, attempt }) => `${attempt} ${event}`)).toEqual([
      "0 enqueued",
      "1 started",
      "1 retried",
      "2 started",
      "2 retried",
      "3 started",
      "3 succeeded",
    ]);
    const errors = events.filter(({ event }) => event === "retried").map(({ error }) => error);
    expect(errors).toEqual([
      expect.objectContaining({ name: "SourceAwayError", message: "the source answered 503" }),
      expect.objectContaining({ name: "SourceAwayError", message: "the source does not answer" }),
    ]);
    expect(lines.filter(([, said]) => (said as { id?: string })?.id === id)).toEqual([
      ["Feed read", expect.objectContaining({ items: 3, stored: 3, attempt: "3/4" })],
    ]);

    const later = await until(
      async () => {
        const over = (await runs(recovers)).filter(({ state }) => state === "succeeded");
        return over.length >= 3 && over;
      },
      { what: "the next ticks have read it" },
    );
    expect(later.map((run) => run.result!.stored).slice(0, 3)).toEqual([3, 1, 0]);
    const items = await bench.sql<{ id: string; job_id: string }>(
      "select id, job_id from samples.feed_item where source = $1 order by id",
      [recovers],
    );
    expect(items).toEqual([
      { id: "a", job_id: id },
      { id: "b", job_id: id },
      { id: "c", job_id: id },
      { id: "d", job_id: later[1]!.id },
    ]);
  });

  it("whose source stays away is dead after the attempts of the environment, with the waits of its backoff", async () => {
    const { id, failures, last_error } = await first(away, "dead");
    expect({ failures, last_error }).toEqual({
      failures: 4,
      last_error: "the source answered 503",
    });
    const events = await story(id);
    const at = (event: string) =>
      events.filter((one) => one.event === event).map((one) => Date.parse(one.at));
    const started = at("started");
    // linear with a cap, 100, 150, 150 ms: never earlier than said
    const waits = at("retried").map((failed, n) => started[n + 1]! - failed);
    expect(waits).toHaveLength(3);
    for (const [n, least] of [100, 150, 150].entries())
      expect(waits[n]).toBeGreaterThanOrEqual(least - 2);
  });

  it.each([
    ["malformed", () => malformed, "FeedMalformedError", /^expected a JSON feed; items\.0\.id: /],
    ["too long", () => huge, "FeedMalformedError", /^expected a feed of at most 1048576 bytes/],
    ["missing", () => missing, "SourceRefusedError", /^the source answered 404$/],
  ])("that is %s is dead after one run, with its error", async (_, source, name, message) => {
    const { id, attempt, failures, last_error } = await first(source(), "dead");
    expect({ attempt, failures }).toEqual({ attempt: 1, failures: 1 });
    expect(last_error).toMatch(message);
    const events = await story(id);
    expect(events.map(({ event }) => event)).toEqual(["enqueued", "started", "died"]);
    expect(events[2]!.error).toMatchObject({ name, message: expect.stringMatching(message) });
    const stored = await bench.sql("select from samples.feed_item where source = $1", [source()]);
    expect(stored).toEqual([]);
  });

  it("that takes longer than its ticks are apart is not read by two jobs at a time", async () => {
    await until(() => server.asked(slow) > 0, { what: "it is being read" });
    const ticks = async () =>
      (
        await bench.sql<{ n: number }>(
          "select count(*)::int as n from jobs.job_status where kind = 'feed.refresh' and state = 'succeeded'",
        )
      )[0]!.n;
    const before = await ticks();
    await until(async () => (await ticks()) >= before + 3, { what: "three ticks have come" });
    expect(await runs(slow)).toHaveLength(1);
    slowGoesOn();
    await first(slow, "succeeded");
    await until(async () => (await runs(slow)).length > 1, { what: "the next tick reads it" });
  });

  it("that never ends is given up at the timeout of the environment, and tried again", async () => {
    const retried = await until(
      async () => {
        const [run] = await runs(hangs);
        return (await story(run!.id)).find(({ event }) => event === "retried");
      },
      { timeout: 40_000, what: "it is retried" },
    );
    expect(retried.error).toMatchObject({ name: "JobTimeoutError" });
  }, 90_000);

  it("is listed by the queries of the page", async () => {
    expect(queries.length).toBeGreaterThanOrEqual(3);
    for (const sql of queries.filter((text) => !text.includes("job_event")))
      expect((await bench.sql(sql)).length).toBeGreaterThan(0);
  });
});

describe("the story of a job by the API", () => {
  it("is for those who have the token, and of jobs that there are", async () => {
    expect(await admin.get("/admin/jobs/1-1/history")).toMatchObject({ status: 401 });
    expect(await admin.get("/admin/jobs/999-1/history", asAdmin)).toMatchObject({
      status: 404,
      body: { code: "JOB_UNKNOWN" },
    });
  });
});

describe("the source that npm start has", () => {
  it("answers a feed, overloaded every fourth time, and cut off every tenth", async () => {
    const answers: string[] = [];
    for (let n = 1; n <= 20; n++) {
      const response = await fetch(`${api.url}/feeds/news`);
      const body = await response.text();
      if (response.status === 503) answers.push("away");
      else if (!body.endsWith("}")) answers.push("cut off");
      else answers.push(String((JSON.parse(body) as { items: unknown[] }).items.length));
    }
    const ten = ["5", "5", "5", "away", "5", "5", "5", "away", "5", "cut off"];
    expect(answers.slice(0, 10)).toEqual(ten);
    expect(answers[11]).toBe("away");
    expect(answers[19]).toBe("cut off");
  });
});
