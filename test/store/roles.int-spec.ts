import { jest } from "@jest/globals";
import { Logger } from "@nestjs/common";
import {
  DatabaseRefusedError,
  JobAudit,
  JobBulk,
  type JobContext,
  JobInspector,
  JobQueue,
  JobRequests,
  JobsModule,
  OnEvent,
  UnknownSubscriptionError,
  bury,
  fixed,
  snooze,
} from "nestjs-pg-jobs";
import { jobsMigrations } from "nestjs-pg-jobs/typeorm";
import pg from "pg";
import { DataSource } from "typeorm";
import { main } from "../../libs/jobs/src/cli/main.js";
import { Bench, feature } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";
import { Role } from "../support/role.js";
import { until } from "../support/until.js";

// What `pg-jobs migrate --producer --worker --admin` grants suffices, and is no more than that; without it people are told.

const NAMES = ["producer", "worker", "admin", "nobody"] as const;
type Name = (typeof NAMES)[number];

let bench: Bench;
let roles: Record<Name, Role>;
const warned: unknown[][] = [];

beforeAll(async () => {
  for (const level of ["warn", "error"] as const)
    jest
      .spyOn(Logger.prototype, level)
      .mockImplementation((...line: unknown[]) => void warned.push(line));
  bench = await Bench.open();
  const made = await Promise.all(NAMES.map(() => Role.create(bench)));
  roles = Object.fromEntries(NAMES.map((name, i) => [name, made[i]!])) as Record<Name, Role>;
});
beforeEach(() => void warned.splice(0));
afterAll(async () => {
  await bench.close();
  for (const role of Object.values(roles)) await role.drop();
  jest.restoreAllMocks();
});

const root = (name: Name) => bench.root({ connection: { url: roles[name].url } });
class Subscriber {
  @OnEvent("happened", { name: "subscribed" })
  get(): void {}
}
const workerApp = async (name: Name) =>
  await bench.app([
    root(name),
    JobsModule.forWorker({
      imports: [
        feature([
          Subscriber,
          handler("works", () => "done"),
          handler("fails", () => Promise.reject(new Error("no use")), {
            attempts: 2,
            backoff: fixed(1),
          }),
          handler("buried", () => bury("no use")),
          handler("snoozes", (_, { attempt }: JobContext) => (attempt === 1 ? snooze(1) : "done")),
          handler("enqueues", async (_, job: JobContext) => {
            await job.enqueue("works", {}, { key: "x", window: "1m" });
          }),
          handler("limited", () => "done", {
            limit: [{ max: 2 }, { max: 1, key: "n" }],
            rate: { max: 100, per: "1s", key: "n" },
          }),
          handler("in-transaction", async (_, job: JobContext) => {
            await job.transaction(async (tx) => void (await tx.query("select 1")));
          }),
        ]),
      ],
      poll: "100ms",
      queues: { default: { concurrency: 5, history: "full" } },
    }),
  ]);

describe("a role without any right", () => {
  it("is told so, by a typed error that says what is missing and where to read on", async () => {
    const app = await bench.app([root("nobody")]);
    const jobs = app.get(JobQueue);
    const inspector = app.get(JobInspector);
    const calls: Record<string, () => Promise<unknown>> = {
      enqueue: () => jobs.enqueue("works"),
      enqueueMany: () => jobs.enqueueMany("works", [{}]),
      get: () => jobs.get("1-1"),
      result: () => jobs.result("1-1"),
      requeue: () => jobs.requeue("1-1"),
      cancel: () => jobs.cancel("1-1"),
      counts: () => inspector.counts(),
    };
    for (const [name, call] of Object.entries(calls)) {
      const error = await call().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect([name, error]).toEqual([name, expect.any(DatabaseRefusedError)]);
      expect(error).toMatchObject({
        code: "DATABASE_REFUSED",
        message: expect.stringMatching(/permission denied for schema .*Grant it.*docs\/roles\.md/s),
      });
    }
    await expect(jobs.enqueue("works")).rejects.toThrow("No job was created");
  });

  it("as a worker: its log says so, and it goes on once it may", async () => {
    await workerApp("nobody");
    await until(() => warned.length > 0, { what: "it says so" });
    expect(warned[0]).toEqual([
      expect.stringMatching(/lacks a right: grant it, docs\/roles\.md/),
      { cause: expect.stringContaining("permission denied for schema") },
    ]);
    const { id } = await (await bench.producer()).enqueue("works");
    await roles.nobody.grantAll();
    await reached(bench, id, "succeeded");
  });
});

const rolesOf = (...names: Name[]) => names.flatMap((name) => [`--${name}`, roles[name].name]);

/** `pg-jobs`, with what it prints. */
async function cli(...args: string[]): Promise<{ code: number; said: string }> {
  let said = "";
  const spies = [process.stdout, process.stderr].map((stream) =>
    jest.spyOn(stream, "write").mockImplementation((text) => Boolean((said += String(text)))),
  );
  try {
    const code = await main([...args, "--url", bench.direct, "--schema", bench.schema], {});
    return { code, said };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

describe("with the roles of the migration", () => {
  let migrated: Awaited<ReturnType<typeof cli>>;
  beforeAll(async () => {
    migrated = await cli("migrate", ...rolesOf("producer", "worker", "admin"));
  });

  it("the command says who was granted what", () => {
    const { producer, worker, admin } = roles;
    const said = `granted to producer: ${producer.name}; worker: ${worker.name}; admin: ${admin.name}\n`;
    expect(migrated).toEqual({ code: 0, said });
  });

  const EVERYBODY = [
    "create table jobs.mine ()",
    "alter table jobs.job add column mine text",
    "drop table jobs.job",
    "truncate jobs.job",
    "truncate jobs.done",
    "delete from jobs.migration",
    "insert into jobs.migration (version, name, checksum) values (999, 'mine', 'x')",
    "update jobs.attempt_error set error = '{}'",
    "delete from jobs.attempt_error",
    "delete from jobs.event",
    "delete from jobs.job_log",
    "delete from jobs.queue",
    "delete from jobs.lane",
    "create trigger mine before insert on jobs.job execute function jobs.count_in()",
  ];
  const NO_OPERATOR = [
    "insert into jobs.pause (queue_id, kind) select id, '' from jobs.queue",
    "delete from jobs.pause",
    "delete from jobs.subscription",
    "update jobs.done set result = '1'",
    "delete from jobs.done",
  ];
  const NO_WORKER = [
    "select jobs.drop_partition('done_20200101')",
    "update jobs.queue set prune_dead = '1 second'",
    "insert into jobs.dead select * from jobs.dead",
    "insert into jobs.attempt_error select * from jobs.attempt_error",
    "insert into jobs.job_log select * from jobs.job_log",
    "insert into jobs.worker (host, pid) values ('mine', 1)",
    "update jobs.worker set beat_at = now()",
    "delete from jobs.worker",
    "update jobs.stat set n = 0",
    "delete from jobs.stat_delta",
    "delete from jobs.control",
    "delete from jobs.progress",
  ];
  const DENIED: [Name, string[]][] = [
    [
      "producer",
      [
        ...EVERYBODY,
        ...NO_OPERATOR,
        ...NO_WORKER,
        "select * from jobs.attempt_error",
        "select * from jobs.event",
        "select * from jobs.job_log",
        "select * from jobs.stat",
        "select * from jobs.limit_rule",
        "insert into jobs.limit_rule (queue_id) values (1)",
        "delete from jobs.slot",
        "delete from jobs.dead",
        "delete from jobs.dead_archive",
        "insert into jobs.chore (name, every) values ('mine', '1 s')",
        "update jobs.subscription set retired_at = now()",
      ],
    ],
    ["worker", [...EVERYBODY, ...NO_OPERATOR]],
    [
      "admin",
      [
        ...EVERYBODY,
        ...NO_WORKER,
        "update jobs.subscription set retired_at = now()",
        "update jobs.audit set operator = 'somebody else'",
        "delete from jobs.audit",
        "delete from jobs.bulk",
      ],
    ],
  ];
  it.each(DENIED)("a %s gets 42501 for what is not its work", async (name, statements) => {
    const client = new pg.Client(roles[name].url);
    await client.connect();
    try {
      const allowed: string[] = [];
      for (const statement of statements) {
        await client.query("begin");
        const code = await client.query(statement.replaceAll(/\bjobs\./g, `${bench.schema}.`)).then(
          () => "none",
          (error: { code: string }) => error.code,
        );
        await client.query("rollback");
        if (code !== "42501") allowed.push(`${code}: ${statement}`);
      }
      expect(allowed).toEqual([]);
    } finally {
      await client.end();
    }
  });

  it("a producer and a worker are refused what an operator does, with a word on how to get it", async () => {
    const { id } = await (await bench.producer()).enqueue("buried", {}, { queue: "judged" });
    for (const name of ["producer", "worker"] as const) {
      const jobs = (await bench.app([root(name)])).get(JobQueue);
      const calls: Promise<unknown>[] = [
        jobs.queues.pause("judged"),
        jobs.unsubscribe("unheard.of", "x"),
      ];
      if (name === "producer")
        calls.push(jobs.requeue(id), jobs.queues.limit("judged", { limit: { max: 1 } }));
      for (const call of calls)
        await expect(call).rejects.toThrow(/permission denied .*Grant it.*docs\/roles\.md/s);
    }
    expect(await bench.state(id)).toBe("queued");
    expect(await bench.sql("select 1 from jobs.pause")).toEqual([]);
  });

  it("says so of a role that does not exist, and does nothing", async () => {
    const [before] = await bench.sql<{ acl: string }>(
      "select relacl::text as acl from pg_class where oid = 'jobs.job'::regclass",
    );
    const { code, said } = await cli(
      "migrate",
      "--producer",
      roles.nobody.name,
      "--admin",
      'nob"dy',
    );
    expect(code).toBe(1);
    expect(said).toBe(
      `pg-jobs: Invalid roles:\n  - admin: expected a role that exists, found none of the name "nob\\"dy"; create role "nob""dy" login\n`,
    );
    expect(
      await bench.sql("select relacl::text as acl from pg_class where oid = 'jobs.job'::regclass"),
    ).toEqual([before]);
  });

  it.each<[string[], RegExp]>([
    [
      ["--producer", "public"],
      /--producer: expected the name of a role.* other than public, found "public"/,
    ],
    [["--worker="], /--worker: expected the name of a role.*found ""/],
    [["--admin", "x".repeat(64)], /--admin: expected the name of a role, of at most 63 bytes/],
    [["--produce", "x"], /unknown option --produce, did you mean --producer\?/],
    [["--producer"], /expected a value after --producer/],
  ])("does not understand %j", async (args, message) => {
    const { code, said } = await cli("migrate", ...args);
    expect([code, said]).toEqual([2, expect.stringMatching(message)]);
  });

  it("gives them by TypeORM's migrations, and when an app starts", async () => {
    const enqueues = async (of: Bench) => {
      const connection = { url: roles.nobody.urlOf(of) };
      const jobs = (await of.app([of.root({ connection })])).get(JobQueue);
      return await jobs.enqueue("works");
    };
    const byTypeOrm = await Bench.open({ migrated: false });
    const atStart = await Bench.open({ migrated: false });
    const migrations = { schema: byTypeOrm.schema, roles: { producer: roles.nobody.name } };
    const source = await new DataSource({
      type: "postgres",
      url: bench.direct,
      migrations: jobsMigrations(migrations),
      migrationsTableName: `${byTypeOrm.schema}_typeorm`,
    }).initialize();
    try {
      await source.runMigrations();
      expect(await enqueues(byTypeOrm)).toMatchObject({ deduplicated: false });
      await atStart.producer({ migrate: "on-start", roles: { producer: [roles.nobody.name] } });
      expect(await enqueues(atStart)).toMatchObject({ deduplicated: false });
    } finally {
      await source.query(`drop table "${byTypeOrm.schema}_typeorm"`);
      await source.destroy();
      for (const one of [byTypeOrm, atStart]) await one.close();
    }
  });

  it("plans the same rights, for several roles at once, with any name", async () => {
    const odd = `odd "${bench.schema}"; drop`;
    const other = await Role.create(bench);
    await bench.sql(`create role "${odd.replaceAll('"', '""')}"`);
    try {
      const { code, said } = await cli("plan", "--worker", odd, "--worker", other.name);
      expect(code).toBe(0);
      expect(said).toMatch(/^(grant .*;\n)+$/);
      const rights = async (role: string) =>
        await bench.sql(
          `select a.privilege_type, c.relname, c.relkind from pg_class c, aclexplode(c.relacl) a
           where c.relnamespace = $1::regnamespace and a.grantee = quote_ident($2)::regrole order by 1, 2`,
          [bench.schema, role],
        );
      await bench.sql(said);
      const given = await rights(roles.worker.name);
      expect(given.length).toBeGreaterThan(50);
      expect(await rights(odd)).toEqual(given);
      expect(await rights(other.name)).toEqual(given);
    } finally {
      await bench.sql(`drop owned by "${odd.replaceAll('"', '""')}"`);
      await bench.sql(`drop role "${odd.replaceAll('"', '""')}"`);
      await other.drop();
    }
  });

  it("a producer enqueues in every way, reads and cancels", async () => {
    const jobs = (await bench.app([root("producer")])).get(JobQueue);
    const queue = "produced";
    const { id } = await jobs.enqueue("works", {}, { queue, delay: "1h" });
    await jobs.enqueueMany("works", [{}, {}], { queue, priority: 3 });
    const options = { queue, key: "k", window: "1m", onConflict: "replace", delay: "1h" } as const;
    await jobs.enqueue("works", { n: 1 }, options);
    expect(await jobs.enqueue("works", { n: 2 }, options)).toMatchObject({ replaced: true });
    await jobs.enqueueMany("works", [{}], { queue, key: "plain", delay: "1h" });
    expect(await jobs.get(id)).toMatchObject({ state: "queued" });
    const waits = jobs.result(id).catch((error: unknown) => error);
    await until(async () => (await bench.sql("select 1 from jobs.job where awaited")).length > 0, {
      what: "it may mark what it waits for",
    });
    expect(await jobs.cancel(id)).toBe("cancelled");
    expect(await waits).toMatchObject({ code: "RESULT_CANCELLED" });
    const client = new pg.Client(roles.producer.url);
    await client.connect();
    try {
      await client.query("begin");
      await jobs.in(client).enqueue("works", {}, { queue });
      await client.query("commit");
      await client.query(`select ${bench.schema}.declare('by-sql', 'works')`);
      await client.query(`select ${bench.schema}.enqueue('works', queue => 'by-sql')`);
      await client.query(`select ${bench.schema}.wake('by-sql')`);
    } finally {
      await client.end();
    }
    expect(await jobs.queues.get(queue)).toMatchObject({ paused: null });
    await jobs.schedules.upsert("produced", "works", { cron: "0 0 1 1 *" });
    await jobs.schedules.pause("produced");
    await jobs.schedules.resume("produced");
    await jobs.schedules.runNow("produced");
    await jobs.schedules.remove("produced");
    expect(await jobs.publish("unheard.of", {})).toEqual([]);
    expect(await jobs.subscriptions("unheard.of")).toEqual([]);
  });

  it("a worker runs jobs to every end, and keeps the house", async () => {
    await bench.sql("update jobs.queue set prune_dead = '1 second', archive_dead = '1 second'");
    // One of them is a turn that is taken when it is needed, and nobody's duty.
    await bench.sql("update jobs.chore set due_at = now() where name <> 'seclusion'");
    await workerApp("worker");
    const jobs = await bench.producer();
    const ends = {
      works: "succeeded",
      fails: "dead",
      buried: "dead",
      snoozes: "succeeded",
      enqueues: "succeeded",
      limited: "succeeded",
      "in-transaction": "succeeded",
    };
    for (const [kind, state] of Object.entries(ends)) {
      const { id } = await jobs.enqueue(kind);
      await reached(bench, id, state);
    }
    const [delivery] = await jobs.publish("happened", {});
    await reached(bench, delivery!.id, "succeeded");
    const limited = await jobs.enqueueMany("limited", [{ n: 1 }, { n: 1 }, { n: 1 }]);
    for (const { id } of limited) await reached(bench, id, "succeeded");
    await until(
      async () =>
        (
          await bench.sql(
            "select 1 from jobs.chore where due_at <= now() - interval '1 s' and name <> 'seclusion'",
          )
        ).length === 0,
      { what: "the chores are done" },
    );
    const told = warned.filter(([message]) => !String(message).startsWith("Job "));
    expect(told).toEqual([]);
  });

  it("an admin reads everything, requeues and cancels", async () => {
    const producer = await bench.producer();
    const app = await bench.app([root("admin")]);
    const inspector = app.get(JobInspector);
    const jobs = app.get(JobQueue);
    const cancelled = (await producer.enqueue("elsewhere", {}, { queue: "far", delay: "1h" })).id;
    expect(await jobs.cancel(cancelled)).toBe("cancelled");
    expect(await jobs.requeue(cancelled)).toBe("queued");
    expect(await inspector.get(cancelled)).toMatchObject({ state: "queued" });
    expect((await inspector.list()).items.length).toBeGreaterThan(0);
    await inspector.attempts(cancelled);
    await inspector.history(cancelled);
    for (const read of ["counts", "queues", "workers", "health"] as const)
      expect((await inspector[read]()).length).toBeGreaterThan(0);
    await inspector.unknownKinds();
    const [letter] = await bench.sql<{ id: string }>(
      "select id from jobs.job_status where state = 'dead'",
    );
    expect(await jobs.requeue(letter!.id)).toBe("queued");
    const queue = "far";
    expect((await jobs.queues.pause(queue, { by: "ada" })).paused).toMatchObject({ by: "ada" });
    expect((await jobs.queues.resume(queue)).paused).toBeNull();
    const limit = { max: 5, key: "n" };
    expect(await jobs.queues.limit(queue, { limit, rate: { max: 9, per: "1s" } })).toHaveLength(2);
    expect(await jobs.queues.limits(queue)).toHaveLength(2);
    await jobs.queues.pause(queue, { key: "7" });
    await jobs.queues.resume(queue, { key: "7" });
    expect(await jobs.queues.limit(queue, {})).toEqual([]);
    await expect(jobs.unsubscribe("unheard.of", "x")).rejects.toThrow(UnknownSubscriptionError);
    for await (const news of inspector.follow(cancelled)) {
      expect(news).toBeDefined();
      break;
    }
    const bulk = app.get(JobBulk);
    bulk.watch();
    const other = (await producer.enqueue("elsewhere", {}, { queue: "far", delay: "1h" })).id;
    const filter = { queue: "far", kind: "elsewhere" };
    const { count } = await bulk.preview({ action: "delete", filter });
    const order = await bulk.start({ action: "delete", filter, expected: count, operator: "ada" });
    await until(async () => (await bulk.get(order.id))?.state === "done", { what: "it is over" });
    expect(await jobs.get(other)).toBeNull();
    const audit = app.get(JobAudit);
    const deed = {
      operator: "ada",
      role: "admin",
      action: "a",
      target: "t",
      why: null,
      details: {},
    };
    await audit.end(await audit.begin(deed), "done");
    expect((await audit.list()).items).toMatchObject([{ outcome: "done" }]);
    const requests = app.get(JobRequests);
    const key = { operator: "ada", key: "k" };
    const taken = (await requests.take(key, "x")) as { fence: string };
    await requests.answer(key, taken.fence, 200, {});
    await requests.drop(key, taken.fence);
    await inspector.progress(cancelled);
    await inspector.logs(cancelled);
  });
});
