import { readFileSync } from "node:fs";
import path from "node:path";
import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The reminders as an operator sees them with psql: every query of docs/monitoring.md, as it stands there.

const page = readFileSync(path.join(import.meta.dirname, "../../docs/monitoring.md"), "utf8");
const queries = new Map(
  [...page.matchAll(/^(.+?)(?:, .*| \(.*)?:\n\n```sql\n([^]*?)```/gm)].map(([, what, sql]) => [
    what!.split(",")[0]!,
    sql!,
  ]),
);

let bench: Bench;
let apps: SampleApps;
let api: HttpApp;

beforeAll(async () => {
  bench = await Bench.open();
  apps = new SampleApps(bench.schema);
  api = await apps.api();
  await apps.worker();
});
afterAll(async () => {
  await apps.close();
  await bench.close();
});

const post = async (to: string) =>
  (await api.post("/reminders", { to, text: "Tea" })).body.jobId as unknown as string;
const ask = async (what: string) => {
  const sql = queries.get(what);
  if (sql === undefined)
    throw new Error(`no query "${what}" among ${[...queries.keys()].join(" | ")}`);
  return await bench.sql<Record<string, unknown>>(sql);
};

describe("monitoring by SQL", () => {
  let sent: string;
  let refused: string;
  beforeAll(async () => {
    sent = await post("ada@example.com");
    refused = await post("alan@mail.invalid");
    await until(async () => (await bench.state(sent)) === "succeeded", { what: "it is sent" });
    await until(
      async () =>
        (await bench.sql("select from jobs.job_status where id = $1 and failures = 1", [refused]))
          .length === 1,
      { what: "it has failed once" },
    );
  });

  it("has seven queries", () => {
    expect(queries.size).toBe(7);
  });

  it("counts by kind and state", async () => {
    expect(await ask("Jobs by kind and state")).toEqual([
      expect.objectContaining({
        kind: "reminder.send",
        unfinished: "1",
        succeeded: "1",
        dead: null,
      }),
    ]);
  });

  it("shows failed runs with their errors, what is retried, and its story", async () => {
    expect(await ask("Failed runs of the last hour")).toEqual([
      expect.objectContaining({
        id: refused,
        queue: "mail",
        attempt: 1,
        error: "MailRefusedError",
        stack: expect.stringContaining("Mailer.send"),
      }),
    ]);
    expect(await ask("What is retried")).toEqual([
      expect.objectContaining({
        id: refused,
        failures: 1,
        last_error: expect.stringContaining("refuses"),
      }),
    ]);
    const [queue, number] = refused.split("-");
    const story = queries
      .get("The story of one job")!
      .replace("queue_id = 1", `queue_id = ${queue}`)
      .replace("number = 1024", `number = ${number}`);
    expect((await bench.sql<{ event: string }>(story)).map(({ event }) => event)).toEqual([
      "enqueued",
      "started",
      "retried",
    ]);
  });

  it("shows what waits too long, and who works", async () => {
    expect(await ask("How long the oldest job that could run has waited")).toEqual([]);
    await bench.sql("update jobs.job set run_at = now() - interval '1 hour' where id = $1", [
      refused.split("-")[1],
    ]);
    expect(await ask("Workers that live")).toEqual([
      expect.objectContaining({ pid: process.pid, slots: expect.any(Number) }),
    ]);
    await until(async () => (await over()) === 2, { what: "it has failed again" });
  });

  /** How often it has failed, unless it is due or runs. */
  const over = async () => {
    const [row] = await bench.sql<{ failures: number }>(
      "select failures from jobs.job_status where id = $1 and (state = 'dead' or state = 'queued' and run_at > now())",
      [refused],
    );
    return row?.failures;
  };

  it("shows dead letters of the last hour", async () => {
    for (const failures of [3, 4]) {
      await bench.age(refused, "1 hour");
      await until(async () => (await over()) === failures, { what: "it has failed again" });
    }
    expect(await bench.state(refused)).toBe("dead");
    expect(await ask("Dead letters of the last hour by kind")).toEqual([
      expect.objectContaining({ kind: "reminder.send", died: "1" }),
    ]);
  });
});
