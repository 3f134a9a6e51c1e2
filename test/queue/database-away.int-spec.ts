import { inspect } from "node:util";
import {
  DatabaseUnavailableError,
  EnqueueOutcomeUnknownError,
  JobInspector,
  JobQueue,
} from "nestjs-pg-jobs";
import { Bench, behindPooler } from "../support/harness.js";
import type { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

// The database goes away and comes back: callers get typed errors, and the process is as it was.

let bench: Bench;
let proxy: TcpProxy;
let jobs: JobQueue;
beforeEach(async () => {
  bench = await Bench.open();
  const line = await bench.line();
  proxy = line.proxy;
  jobs = await bench.producer({ connection: { url: line.url }, notify: false });
  await jobs.enqueue("work", { n: 0 });
});
afterEach(async () => await bench.close());

const rows = async () => (await bench.sql("select id from jobs.job_status")).length;

/** The server processes that the producer under test sends to: its own, or those of a pooler. */
const backends = async () =>
  await bench.sql<{ pid: number }>(
    "select pid from pg_stat_activity where datname = current_database() and application_name = 'pg-jobs front'",
  );

// Not behind a pooler: it answers for the server, in words of its own.
(behindPooler ? describe.skip : describe)("a database that was never there for us", () => {
  const changed = (change: (url: URL) => void): string => {
    const url = new URL(bench.url);
    url.password = "a-guessed-secret";
    change(url);
    return url.href;
  };

  it.each<[string, (url: URL) => void, RegExp]>([
    ["a wrong password", () => undefined, /\(28P01\); correct the user or the password/],
    [
      "no password",
      (url) => void (url.password = ""),
      /password must be a (non-empty )?string; check the settings/,
    ],
    [
      "a missing database",
      (url) => {
        url.password = new URL(bench.url).password;
        url.pathname = "/no_such_database";
      },
      /"no_such_database" does not exist \(3D000\); create this database/,
    ],
    [
      "a host that does not resolve",
      (url) => void (url.hostname = "no.such.host.invalid"),
      /no\.such\.host\.invalid; check the host/,
    ],
    ["a closed port", (url) => void (url.port = "1"), /none \(connect ECONNREFUSED/],
  ])("for %s is told with what to do, and without the password", async (_, change, message) => {
    const app = await bench.app([bench.root({ connection: { url: changed(change) } })]);
    const queue = app.get(JobQueue);
    const inspector = app.get(JobInspector);
    const writes = [queue.enqueue("work", {}), queue.enqueueMany("work", [{}])];
    const reads = [queue.get("1-1"), inspector.counts(), inspector.health(), inspector.get("1-1")];
    const requeue = queue.requeue("1-1");
    for (const call of [...writes, ...reads, requeue]) {
      const error = await call.catch((reason: unknown) => reason as Error);
      expect(error).toBeInstanceOf(DatabaseUnavailableError);
      const { message: said, cause } = error as Error;
      expect(said).toMatch(message);
      expect(cause).toBeInstanceOf(Error);
      expect(said.includes("No job was created")).toBe(writes.includes(call as never));
      expect(said.includes("The job was not requeued")).toBe(call === requeue);
      expect(inspect(error, { depth: 9 })).not.toContain("a-guessed-secret");
    }
  });

  it("fails a boot that migrates with the same error", async () => {
    const connection = { url: changed(() => undefined) };
    await expect(bench.producer({ connection, migrate: "on-start" })).rejects.toThrow(
      DatabaseUnavailableError,
    );
  });
});

describe("a requeue whose answer is lost", () => {
  it("is not said to have created no job", async () => {
    const { id } = await jobs.enqueue("work", {});
    proxy.setMode("blackhole");
    const answer = jobs.requeue(id);
    answer.catch(() => undefined);
    await new Promise((resolve) => setImmediate(resolve));
    proxy.setMode("reset");
    await expect(answer).rejects.toThrow(/Whether the job was requeued is not known/);
    await expect(jobs.requeue(id)).rejects.toThrow(/The job was not requeued/);
  });
});

describe("a database that goes away", () => {
  it("while the connection idles is not noticed by the next call", async () => {
    for (let round = 0; round < 5; round++) {
      const all = await backends();
      expect(all.length).toBeGreaterThan(0);
      for (const { pid } of all)
        expect(await bench.sql("select pg_terminate_backend($1, 5000) as gone", [pid])).toEqual([
          { gone: true },
        ]);
      await expect(jobs.enqueue("work", {})).resolves.toMatchObject({ deduplicated: false });
    }
    proxy.resetAll();
    await expect(jobs.enqueue("work", {}, { key: "k" })).resolves.toBeDefined();
    expect(await rows()).toBe(7);
    await until(() => proxy.connections === 1, { what: "one connection is left" });
  });

  it("refuses tens of callers with a typed error, and keeps nothing of them", async () => {
    proxy.setMode("reset");
    await until(() => proxy.connections === 0, { what: "the line is cut" });
    const handles = () =>
      process.getActiveResourcesInfo().filter((name) => /TCP|Timeout/.test(name)).length;
    await expect(jobs.enqueue("work", {})).rejects.toThrow(DatabaseUnavailableError);
    // Looked at as it is below, where `until` has a timer of its own.
    const before = await until(handles);
    for (let round = 0; round < 5; round++) {
      const calls = Array.from({ length: 40 }, async (_, n) => {
        if (n % 4 === 0) return await jobs.get("1-1");
        if (n % 4 === 1) return await jobs.enqueueMany("work", [1, 2], { key: `${n}` });
        return await jobs.enqueue("work", {}, n % 2 ? { queue: `new ${n}` } : {});
      });
      for (const { status, reason } of (await Promise.allSettled(
        calls,
      )) as PromiseRejectedResult[]) {
        expect(status).toBe("rejected");
        expect(reason).toBeInstanceOf(DatabaseUnavailableError);
      }
    }
    await until(() => handles() <= before, { what: "no socket or timer is left" });
    proxy.setMode("pass");
    await expect(jobs.enqueue("work", {})).resolves.toBeDefined();
    expect(await rows()).toBe(2);
    await until(() => proxy.connections === 1, { what: "one connection is left" });
  });

  // Not behind a pooler: 30 times 5 s until what was lost cannot be executed any more; there is nothing else in it about poolers.
  (behindPooler ? describe.skip : describe)("again and again", () => {
    it("does not add listeners to anything that lives on", async () => {
      const warnings: Error[] = [];
      const warn = (warning: Error) => warnings.push(warning);
      process.on("warning", warn);
      for (let round = 0; round < 30; round++) {
        proxy.resetAll();
        await jobs.enqueue("work", { round });
      }
      process.off("warning", warn);
      expect(warnings).toEqual([]);
      expect(await rows()).toBe(31);
    });
  });

  it("never leaves a caller in doubt that need not be", async () => {
    // Connections break at random moments under load: each call is answered, and the answers are true.
    const answers: string[] = [];
    const doubts: string[] = [];
    let stop = false;
    const callers = Array.from({ length: 16 }, async (_, caller) => {
      for (let n = 0; !stop; n++)
        await jobs.enqueue("work", { caller, n }, caller % 3 ? {} : { key: `${caller}.${n}` }).then(
          ({ id }) => answers.push(id),
          (error: unknown) => {
            if (error instanceof EnqueueOutcomeUnknownError) doubts.push(...error.ids);
            else expect(error).toBeInstanceOf(DatabaseUnavailableError);
          },
        );
    });
    // Behind a pooler it takes 5 s each time until what was lost cannot be executed any more.
    for (let round = 0; round < (behindPooler ? 2 : 20); round++) {
      const enough = answers.length + 1 + Math.floor(Math.random() * 200);
      await until(() => answers.length >= enough, { every: 1, what: "calls go through" });
      proxy.resetAll();
    }
    stop = true;
    await Promise.all(callers);
    expect(doubts).toEqual([]);
    const there = await bench.sql<{ id: string }>(
      "select id from jobs.job_status where payload ? 'caller'",
    );
    expect(there.map(({ id }) => id).sort()).toEqual(answers.toSorted());
  });
});

describe("an app that is closed", () => {
  it("says so, and not that the call may be repeated", async () => {
    const closed = await Bench.open();
    const app = await closed.app([closed.root()]);
    const queue = app.get(JobQueue);
    const { id } = await queue.enqueue("work", {});
    await app.close();
    const calls = [
      () => queue.enqueue("work", {}),
      () => queue.enqueueMany("work", [{}, {}]),
      () => queue.get(id),
      () => app.get(JobInspector).counts(),
    ];
    for (const call of calls) {
      const error = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(DatabaseUnavailableError);
      expect((error as Error).message).toMatch(/found that the app is closed\..*before app.close/);
      expect((error as Error).message).not.toContain("Repeat");
    }
    await closed.close();
  });
});

describe("a database that is closed for maintenance", () => {
  it("is waited for, and no settings are to be checked", async () => {
    const name = `closed_${Date.now()}`;
    await bench.sql(`create database ${name} allow_connections false`);
    try {
      const url = new URL(bench.direct);
      url.pathname = `/${name}`;
      const queue = await bench.producer({ connection: { url: url.href } });
      const error = await queue.enqueue("work", {}).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(DatabaseUnavailableError);
      expect((error as Error).message).toMatch(/No job was created\. Repeat the call\./);
      expect((error as Error).message).not.toContain("check");
    } finally {
      await bench.sql(`drop database ${name}`);
    }
  });
});
