import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { JobInspector, type JobQueue, fixed } from "nestjs-pg-jobs";
import { parseJobsOptions } from "../../libs/jobs/src/jobs.options.js";
import { FULL_VERSION } from "../../libs/jobs/src/store/migrations/migrate.js";
import { Bench, behindPooler } from "../support/harness.js";
import { Gate, handler, reached } from "../support/handlers.js";
import { valuesOf, written } from "../support/kustomization.js";
import { sqlBlocks } from "../support/sql-blocks.js";
import { until } from "../support/until.js";

// docs/operations.md: each of its statements, run where there is what it is meant to show.

const ROOT = path.resolve(import.meta.dirname, "../..");
const page = readFileSync(path.join(ROOT, "docs/operations.md"), "utf8");
const blocks = sqlBlocks("docs/operations.md");
const ran = new Set<string>();

type Found = Record<string, unknown>;

let bench: Bench;
let jobs: JobQueue;
const gate = new Gate();
const once = new Gate();

/** What a statement of a section answers. */
const ask = async (section: string, n = 0): Promise<Found[]> => {
  const sql = blocks.get(section)?.[n];
  if (sql === undefined) throw new Error(`no statement ${n} under "${section}"`);
  ran.add(`${section} ${n}`);
  return await bench.sql<Found>(sql);
};

beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
});
afterAll(async () => {
  gate.open();
  once.open();
  await bench.close();
});

describe("without a worker", () => {
  it("shows the backlog that nobody serves, and what is unknown", async () => {
    const { id } = await jobs.enqueue("welcome", {}, { queue: "mail" });
    await bench.age(id, "1 hour");
    expect(await ask("Backlog without a live worker")).toEqual([{ queue: "mail" }]);
    expect(await ask("Unknown kinds")).toEqual([{ queue: "mail", kind: "welcome" }]);
    const [lag, ...others] = await ask("Lag is high");
    expect(lag).toMatchObject({ queue: "mail", kind: "welcome", priority: 0, id });
    expect(lag!.lag).toMatchObject({ hours: 1 });
    expect(others).toEqual([]);
    expect(await ask("Lag is high", 1)).toEqual([]);
    // What is not due yet is no backlog.
    await jobs.enqueue("later", {}, { queue: "tomorrow", delay: "1d" });
    expect(await ask("Backlog without a live worker")).toEqual([{ queue: "mail" }]);
  });

  it("shows which days are there, and makes those that are not", async () => {
    const daysAhead = async () =>
      Object.fromEntries(
        (await ask("Partitions ahead")).map(({ parent, days_ahead: days }) => [parent, days]),
      );
    expect(await daysAhead()).toEqual({ done: 7, attempt_error: 7, event: 7, job_log: 7 });
    const [{ last }] = (await bench.sql<{ last: string }>(
      "select max(inhrelid::regclass::text) as last from pg_inherits where inhparent = 'jobs.done'::regclass",
    )) as [{ last: string }];
    await bench.sql(`drop table ${last}`);
    expect(await daysAhead()).toMatchObject({ done: 6, event: 7 });
    expect(await ask("Partitions ahead", 1)).toEqual([{ ensure_partitions: 1 }]);
    expect(await daysAhead()).toMatchObject({ done: 7 });
  });

  it("shows what there is of the schema", async () => {
    const [found] = await ask("Schema missing or older");
    expect(found).toMatchObject({ version: FULL_VERSION, name: expect.any(String) });
  });

  it("shows a pause", async () => {
    await jobs.queues.pause("mail", { by: "ann", why: "the relay is down" });
    await jobs.queues.pause("mail", { kind: "welcome", until: new Date(Date.now() + 3_600_000) });
    const found = await ask("A queue is paused");
    expect(found).toHaveLength(2);
    expect(found).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          queue: "mail",
          kind: null,
          paused_by: "ann",
          paused_until: null,
        }),
        expect.objectContaining({ queue: "mail", kind: "welcome", paused_by: null }),
      ]),
    );
    await jobs.queues.resume("mail");
    await jobs.queues.resume("mail", { kind: "welcome" });
    expect(await ask("A queue is paused")).toEqual([]);
  });
});

describe("with a worker", () => {
  beforeAll(async () => {
    await bench.worker([
      handler("dies", () => Promise.reject(new Error("no use")), {
        attempts: 1,
        backoff: fixed(1),
      }),
      handler("waits", async () => await gate.opened),
      handler("once", async () => await once.opened),
    ]);
  });

  it("shows it, and how full it is", async () => {
    const { id } = await jobs.enqueue("waits");
    await reached(bench, id, "running");
    const [worker, ...others] = await until(
      async () => {
        const found = await ask("Lag is high", 1);
        return found.length > 0 && found;
      },
      { what: "it has registered" },
    );
    expect(worker).toMatchObject({
      pid: process.pid,
      slots: 10,
      kinds: { default: expect.arrayContaining(["dies", "waits"]) },
    });
    expect(others).toEqual([]);
    // Its queue has a worker now; the other one has none still.
    expect(await ask("Backlog without a live worker")).toEqual([{ queue: "mail" }]);
    expect((await ask("Unknown kinds")).map(({ kind }) => kind)).not.toContain("waits");
    expect(await ask("Event-loop delay")).toEqual([]);
    await bench.sql("update jobs.worker set beat_at = now() - interval '40 seconds'");
    expect(await ask("Event-loop delay")).toEqual([
      expect.objectContaining({ pid: process.pid, slots: 10 }),
    ]);
  });

  it("shows what died, of what, and how often", async () => {
    for (let n = 0; n < 2; n++) {
      const { id } = await jobs.enqueue("dies");
      await reached(bench, id, "dead");
    }
    const [found, ...others] = await ask("Dead letters grow");
    expect(found).toMatchObject({
      queue: "default",
      kind: "dies",
      message: "no use",
      died: "2",
      an_id: expect.stringMatching(/^\d+-\d+$/),
    });
    expect(others).toEqual([]);
    expect(await ask("Jobs fail")).toEqual([
      expect.objectContaining({ queue: "default", error: "Error", message: "no use", failed: "2" }),
    ]);
    await bench.sql("update jobs.dead set finished_at = finished_at - interval '2 hours'");
    expect(await ask("Dead letters grow")).toEqual([]);
  });

  it("shows a lease that has expired, and who had it", async () => {
    expect(await ask("Expired leases")).toEqual([]);
    // Of a worker that is gone, in a queue that no other one serves: nobody takes it over.
    const { id } = await jobs.enqueue("waits", {}, { queue: "elsewhere" });
    await bench.sql(
      `with gone as (
         insert into jobs.worker (host, pid, beat_at) values ('far', 7, now() - interval '2 minutes') returning id)
       update jobs.job set worker = (select id from gone), attempt = 1, claimed_at = now() - interval '2 minutes',
         lease_until = now() - interval '1 minute'
       where queue_id || '-' || id = $1`,
      [id],
    );
    expect(await ask("Expired leases")).toEqual([
      expect.objectContaining({ id, kind: "waits", host: "far", pid: 7, crashes: 0 }),
    ]);
  });

  it("shows who waits for whose lock", async () => {
    const blocking = await bench.client();
    try {
      const { id } = await jobs.enqueue("once");
      await reached(bench, id, "running");
      expect(await ask("Settling fails")).toEqual([]);
      await blocking.query("begin");
      const { rows } = await blocking.query<{ pid: number }>(
        `select pg_backend_pid() as pid from ${bench.schema}.job where queue_id || '-' || id = $1 for update`,
        [id],
      );
      once.open();
      const [found] = await until(
        async () => {
          const waiting = await ask("Settling fails");
          return waiting.length > 0 && waiting;
        },
        { every: 5, what: "its end waits" },
      );
      expect(found).toMatchObject({
        application_name: expect.stringMatching(/^pg-jobs settle/),
        blocked_by: [rows[0]!.pid],
      });
      await blocking.query("commit");
      await reached(bench, id, "succeeded");
    } finally {
      blocking.release();
    }
  });

  it("shows who has lost attempts", async () => {
    expect(await ask("Lost settles")).toEqual([]);
    await bench.sql("update jobs.worker set lost = 3 where host = 'far'");
    expect(await ask("Lost settles")).toEqual([
      expect.objectContaining({ host: "far", pid: 7, lost: "3" }),
    ]);
  });

  it("shows who holds a snapshot, and what that keeps", async () => {
    const client = await bench.client();
    try {
      await client.query("begin isolation level repeatable read");
      const { rows } = await client.query<{ pid: string }>("select pg_backend_pid()::text as pid");
      const mine = (await ask("Long transactions")).filter(({ name }) => name === rows[0]!.pid);
      expect(mine).toEqual([
        expect.objectContaining({
          what: "session",
          about: expect.stringContaining("idle in transaction"),
        }),
      ]);
      await client.query("rollback");
      const after = await ask("Long transactions");
      expect(after.map(({ name }) => name)).not.toContain(rows[0]!.pid);
    } finally {
      client.release();
    }
    expect(
      (await ask("Long transactions", 1)).map(({ relname }) => String(relname)).toSorted(),
    ).toEqual(["dead", "job", "stat_delta"]);
  });

  it("shows our connections, whether the server takes writes, and what takes the room", async () => {
    const names = (await ask("Connections")).map(({ application_name: name }) => name);
    // A pooler's own have the name of whoever had them last.
    const ours = behindPooler ? [] : ["pg-jobs front", "pg-jobs claim"];
    expect(names.length).toBeGreaterThan(0);
    expect(names).toEqual(expect.arrayContaining(ours));
    const claims = (await ask("A worker stands still")).map(({ application_name: name }) => name);
    expect(claims).toEqual(expect.arrayContaining(ours.slice(1)));
    expect(await ask("Database away")).toEqual([
      expect.objectContaining({ standby: false, read_only: "off" }),
    ]);
    const room = await ask("Disk and retention");
    const done = room.find(({ table }) => String(table).endsWith(".done"));
    // today and a week ahead
    expect(done).toMatchObject({ parts: "8" });
    expect(room.map(({ table }) => String(table).split(".").pop())).toContain("job");
  });
});

describe("what operators leave, and who scales", () => {
  it("goes when the owner says so", async () => {
    await bench.sql(
      "insert into jobs.audit (at, operator, role, action, target) values (now() - interval '2 years', 'a', 'admin', 'b', 'old'), (now(), 'a', 'admin', 'b', 'new')",
    );
    await bench.sql(
      "insert into jobs.bulk (action, filter, expected, operator, finished_at, why) values ('cancel', '{}', 1, 'a', now() - interval '2 years', 'old'), ('cancel', '{}', 1, 'a', null, 'new')",
    );
    await ask("What operators leave");
    expect(await bench.sql("select target from jobs.audit")).toEqual([{ target: "new" }]);
    expect(await bench.sql("select why from jobs.bulk where operator = 'a'")).toEqual([
      { why: "new" },
    ]);
  });

  it("the role of the scaler asks what KEDA asks, and may do nothing else", async () => {
    try {
      const section = "As many workers as there is work";
      ran.add(`${section} 0`);
      const [sql] = blocks.get(section)!;
      await bench.sql(sql!.replace("schema jobs to", `schema ${bench.schema} to`));
      const [query] = written("overlays/keda").flatMap((one) =>
        one.kind === "ScaledObject"
          ? one.spec!.triggers.map(({ metadata }) => metadata.query!)
          : [],
      );
      const url = written("overlays/keda").flatMap((one) =>
        one.kind === "Secret" && one.metadata!.name === "jobs-scaler"
          ? [new URL(valuesOf(one).DATABASE_URL!)]
          : [],
      )[0]!;
      expect(sql).toContain(`role ${url.username} login password '${url.password}'`);
      const client = await bench.client();
      try {
        await client.query("set role jobs_scaler");
        const ours = query!.replaceAll("jobs.", `${bench.schema}.`);
        expect((await client.query(ours)).rows).toEqual([{ max: expect.any(Number) }]);
        await expect(client.query(`select from ${bench.schema}.job`)).rejects.toMatchObject({
          code: "42501",
        });
      } finally {
        await client.query("reset role");
        client.release();
      }
    } finally {
      await bench.sql("drop owned by jobs_scaler; drop role jobs_scaler");
    }
  });
});

describe("the wait for the migration", () => {
  /** The commands for the apps, with a kubectl that answers so, and what it was asked for. */
  const deploy = (answers: string) => {
    const folder = mkdtempSync(path.join(tmpdir(), "jobs-kubectl-"));
    try {
      const [, commands] = /^```sh\n(\(\n +until .*?)^```$/ms.exec(page)!;
      const asked = path.join(folder, "asked");
      writeFileSync(asked, "");
      const script = `#!/bin/sh\necho "$*" >> ${asked}\ncase "$*" in\n${answers}\nesac\n`;
      writeFileSync(path.join(folder, "kubectl"), script, { mode: 0o755 });
      const { status } = spawnSync("sh", ["-c", commands!], {
        env: { PATH: `${folder}:${process.env.PATH}` },
        timeout: 20_000,
      });
      return { status, asked: readFileSync(asked, "utf8") };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };

  it("ends when it has failed, shows its log, and deploys nothing", () => {
    const { status, asked } = deploy("*condition=complete*) exit 1;;");
    expect([status, asked.includes("logs"), asked.includes("apply")]).toEqual([1, true, false]);
  });

  it("goes on while it runs, and deploys when it is complete", () => {
    const { status, asked } = deploy(
      '*condition=complete*) [ "$(grep -c complete "$(dirname "$0")/asked")" -gt 2 ];;\n*condition=failed*) exit 1;;',
    );
    expect([status, asked.match(/complete/g)!.length]).toEqual([0, 3]);
    expect(asked.trim().split("\n").pop()).toMatch(/^apply --kustomize/);
  });
});

describe("the page", () => {
  const runbook = page.slice(page.indexOf("\n## Alerts")).split("\n### ").slice(1);
  const heading = (text: string) =>
    text
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-");

  it("has no statement that was not run here, but those of a restore", () => {
    const all = [...blocks].flatMap(([section, texts]) => texts.map((_, n) => `${section} ${n}`));
    expect(all.filter((one) => !ran.has(one))).toEqual(["Backup and restore 0"]);
  });

  it("says of each alert what it means, how it is seen, and what to do", () => {
    expect(runbook.map((one) => one.split("\n")[0])).toEqual([
      "Dead letters grow",
      "Jobs fail",
      "Lag is high",
      "A queue is paused",
      "Backlog without a live worker",
      "Unknown kinds",
      "Expired leases",
      "Lost settles",
      "Settling fails",
      "Event-loop delay",
      "A worker stands still",
      "A process cannot be scraped",
      "The tables are not read",
      "Nothing tells of jobs",
      "Database away",
      "Connections are scarce",
      "Schema missing or older",
      "Partitions ahead",
      "Long transactions",
    ]);
    for (const alert of runbook)
      expect([...alert.matchAll(/^\*\*(\w+)\*\*: \S.{10}/gm)].map(([, word]) => word)).toEqual([
        "Means",
        "See",
        "Do",
      ]);
  });

  it("has such an entry for every rule of Prometheus", () => {
    const rules = readFileSync(path.join(ROOT, "deploy/prometheus/alerts.yml"), "utf8");
    const names = new Set([...rules.matchAll(/^ +- alert: (\w+)$/gm)].map(([, name]) => name!));
    const told = [...page.matchAll(/^\| `(Jobs\w+)` \| \[(.+)\]\(#(.+)\) \|$/gm)];
    expect(new Set(told.map(([, name]) => name))).toEqual(names);
    expect(told).toHaveLength(names.size);
    for (const [, name, title, anchor] of told) {
      const entry = runbook.find((one) => one.startsWith(`${title}\n`));
      expect([name, entry && heading(title!)]).toEqual([name, anchor]);
    }
  });

  it("agrees with the counters of the library on what is unknown, and on what has expired", async () => {
    const app = await bench.app([bench.root()]);
    const inspector = app.get(JobInspector);
    expect(await ask("Unknown kinds")).toEqual(
      expect.arrayContaining(await inspector.unknownKinds()),
    );
    const [far] = await inspector.health(["elsewhere"]);
    expect(far).toMatchObject({ expiredLeases: 1 });
  });

  it("quotes log lines as they are in the code", () => {
    const sources = [
      "worker/outage.ts",
      "observe/log.observer.ts",
      "worker/watchdog.ts",
      "worker/worker.ts",
    ]
      .map((file) => readFileSync(path.join(ROOT, "libs/jobs/src", file), "utf8"))
      .join("\n");
    const lines = [...page.matchAll(/log lines? ((?:`[^`]+`(?:, )?)+)/g)].flatMap(([, quoted]) =>
      [...quoted!.matchAll(/`([^`]+)`/g)].map(([, line]) => line!),
    );
    expect(lines.length).toBeGreaterThan(4);
    for (const line of lines) {
      const words = line.replace('"partitions"', '"${name}"');
      expect([line, sources.includes(words)]).toEqual([line, true]);
    }
  });

  it("adds up the connections of the example", () => {
    const { connections } = parseJobsOptions({ connection: { url: "postgres://u@h/d" } });
    const samples = readFileSync(path.join(ROOT, "libs/samples/src/samples.module.ts"), "utf8");
    const pool = Number(/extra: \{ max: (\d+) \}/.exec(samples)![1]);
    const replicas = Object.fromEntries(
      written("overlays/example").flatMap((one) =>
        one.kind === "Deployment" ? [[one.metadata!.name, one.spec!.replicas!]] : [],
      ),
    );
    const sum =
      2 * replicas["jobs-api"]! * (3 + pool) +
      2 * replicas["jobs-worker"]! * (connections + pool) +
      2 * replicas["jobs-admin"]! * 2 +
      1;
    expect(page).toContain(
      `api 2 × ${replicas["jobs-api"]} × (3 + ${pool}), worker 2 × ${replicas["jobs-worker"]} × (${connections} + ${pool}), ` +
        `admin 2 × ${replicas["jobs-admin"]} × 2, the migration 1: ${sum}; ` +
        `with 5 for people and monitoring and 3 for superusers that is ${sum + 8},`,
    );
    const [, allowed] = /set `max_connections` to (\d+)/.exec(page)!;
    expect(sum + 8).toBeLessThan(Number(allowed));
    const [object] = written("overlays/keda").flatMap((one) =>
      one.kind === "ScaledObject" ? [one.spec!] : [],
    );
    const more = object!.maxReplicaCount! - replicas["jobs-worker"]!;
    const scaled = sum + 2 * more * (connections + pool);
    expect(page).toContain(
      `the ${object!.maxReplicaCount} of the overlay take ` +
        `${2 * replicas["jobs-api"]! * (3 + pool)} + ${2 * object!.maxReplicaCount! * (connections + pool)} + 4 + 1`,
    );
    expect(scaled + 8).toBeLessThan(Number(allowed));
  });

  it("links to what is there", () => {
    for (const [, link] of page.matchAll(/\]\(([^)]+)\)/g)) {
      const [file, anchor] = link!.split("#");
      const at = path.join(ROOT, "docs", file || "operations.md");
      expect([link, existsSync(at)]).toEqual([link, true]);
      const anchors = [...readFileSync(at, "utf8").matchAll(/^#+ (.+)$/gm)].map(([, text]) =>
        heading(text!),
      );
      expect([link, anchor === undefined || anchors.includes(anchor)]).toEqual([link, true]);
    }
  });
});
