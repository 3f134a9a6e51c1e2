import { Logger } from "@nestjs/common";
import { jest } from "@jest/globals";
import {
  DatabaseUnavailableError,
  JobInspector,
  JobQueue,
  type TransactionLike,
} from "nestjs-pg-jobs";
import { DataSource } from "typeorm";
import { main } from "../../libs/jobs/src/cli/main.js";
import { Bench, behindPooler } from "../support/harness.js";
import { handler } from "../support/handlers.js";
import { until } from "../support/until.js";

// A database that answers and takes no writes (a standby, a setting, the caller's own transaction) is called so.

let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer({ notify: false });
  await jobs.enqueue("work", {});
});
afterAll(async () => await bench.close());
afterEach(() => void jest.restoreAllMocks());

const rows = async () => (await bench.sql("select id from jobs.job_status")).length;

/** What was warned of, as `message: cause`. */
function warnings(): string[] {
  const told: string[] = [];
  jest.spyOn(Logger.prototype, "warn").mockImplementation((message: string, ...rest: unknown[]) => {
    const [params] = rest as [{ cause?: string } | undefined];
    told.push(`${message}: ${params?.cause}`);
  });
  return told;
}

const CALLS: [string, "enqueue" | "cancel" | "requeue", (queue: JobQueue) => Promise<unknown>][] = [
  ["enqueue", "enqueue", (queue) => queue.enqueue("work", {})],
  ["enqueue with a key", "enqueue", (queue) => queue.enqueue("work", {}, { key: "k" })],
  ["enqueueMany", "enqueue", (queue) => queue.enqueueMany("work", [1, { payload: 2, key: "k" }])],
  ["the first enqueue of a kind", "enqueue", (queue) => queue.enqueue("new", {})],
  ["cancel", "cancel", (queue) => queue.cancel("1-1")],
  ["requeue", "requeue", (queue) => queue.requeue("1-1")],
];
const NOTHING = {
  enqueue: "No job was created",
  cancel: "The job was not cancelled",
  requeue: "The job was not requeued",
};

// Not behind a pooler: it takes no settings of the connection.
(behindPooler ? describe.skip : describe)("a database that takes no writes", () => {
  const readOnly = () => {
    const url = new URL(bench.url);
    url.searchParams.set("options", "-c default_transaction_read_only=on");
    return url.href;
  };

  it.each(CALLS)("is not called away: %s", async (_, doing, call) => {
    const app = await bench.app([bench.root({ connection: { url: readOnly() } })]);
    const before = await rows();
    const error = await call(app.get(JobQueue)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DatabaseUnavailableError);
    expect((error as Error).message).toMatch(
      new RegExp(
        `^Expected an answer of the database, found that it takes no writes: cannot execute .+ \\(25006\\)\\. ` +
          `${NOTHING[doing]}\\. After a failover repeat the call; else connect to the primary, or set ` +
          `default_transaction_read_only to off\\.$`,
      ),
    );
    expect(await rows()).toBe(before);
    expect(await app.get(JobInspector).counts()).not.toEqual([]);
    await bench.closeApps();
  });

  it("is waited for by who migrates, and the log says what for", async () => {
    const other = await Bench.open({ migrated: false });
    const told = warnings();
    try {
      await other.producer({ connection: { url: readOnly() }, migrate: "on-start" });
      await until(() => told.length > 0, { what: "it is told" });
      expect(told[0]).toMatch(
        /^The database takes no writes, the schema is migrated when it does: connect to the primary.+: cannot execute .+ read-only transaction$/,
      );
    } finally {
      await other.close();
    }
  });

  it("is told by a worker, and by the command line", async () => {
    const told = warnings();
    await bench.worker([handler("work", () => 1)], {}, { connection: { url: readOnly() } });
    await until(() => told.some((line) => line.startsWith("the database takes no writes: ")), {
      what: "the worker tells",
    });
    await bench.closeApps();
    const said: string[] = [];
    jest.spyOn(process.stderr, "write").mockImplementation((text) => said.push(String(text)) > 0);
    expect(await main(["migrate", "--url", readOnly(), "--schema", "t_read_only"], {})).toBe(1);
    expect(said.join("")).toMatch(
      /^pg-jobs: the database takes no writes: cannot execute .+ \(25006\); connect to the primary, or set default_transaction_read_only to off\n$/,
    );
  });
});

it("a database that is away is told with its cause by who migrates", async () => {
  const { proxy, url } = await bench.line();
  proxy.setMode("reset");
  const told = warnings();
  await bench.producer({ connection: { url }, migrate: "on-start" });
  await until(() => told.length > 0, { what: "it is told" });
  expect(told[0]).toMatch(
    /^The database is away; the schema is migrated when it is back: (?!undefined).+/,
  );
  await bench.closeApps();
});

describe("the caller's own transaction, when it is read only,", () => {
  const inPg = async (work: (tx: TransactionLike) => Promise<unknown>) => {
    const client = await bench.client();
    try {
      await client.query("begin read only");
      return await work(client);
    } finally {
      await client.query("rollback");
      client.release();
    }
  };
  const inTypeOrm = async (work: (tx: TransactionLike) => Promise<unknown>) => {
    const source = await new DataSource({ type: "postgres", url: bench.url }).initialize();
    try {
      return await source.transaction(async (tx) => {
        await tx.query("set transaction read only");
        return await work(tx);
      });
    } finally {
      await source.destroy();
    }
  };

  it.each([
    ["pg", inPg],
    ["TypeORM", inTypeOrm],
  ])("is called so, at once: %s", async (_, within) => {
    const queue = await bench.producer();
    const { id } = await queue.enqueue("work", {}, { delay: "1h" });
    const before = await rows();
    const calls: [keyof typeof NOTHING, (tx: TransactionLike) => Promise<unknown>][] = [
      ["enqueue", (tx) => queue.in(tx).enqueue("work", {})],
      ["enqueue", (tx) => queue.in(tx).enqueue("work", {}, { key: "k" })],
      [
        "enqueue",
        (tx) => queue.in(tx).enqueueMany("work", [{ payload: 1, key: "l", window: "1h" }]),
      ],
      ["cancel", (tx) => queue.in(tx).cancel(id)],
    ];
    for (const [doing, call] of calls) {
      let queries = 0;
      const error = await within(async (tx) => {
        const query = tx.query.bind(tx);
        const counting = jest.spyOn(tx, "query").mockImplementation(async (...args) => {
          queries++;
          return await query(...args);
        });
        return await call(tx).finally(() => counting.mockRestore());
      }).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(DatabaseUnavailableError);
      expect((error as Error).message).toMatch(
        new RegExp(
          `found a transaction that takes no writes: cannot execute .+ \\(25006\\)\\. ${NOTHING[doing]}\\. ` +
            `Begin the transaction read write; or connect to the primary`,
        ),
      );
      expect(queries).toBeLessThanOrEqual(2);
    }
    expect(await rows()).toBe(before);
    // Neither is the connection of the library given up for it.
    await expect(queue.enqueue("work", {})).resolves.toBeDefined();
  });
});
