import {
  type EnqueueOptions,
  type JobQueue,
  type JobView,
  OptionsError,
  SchemaNotReadyError,
  TransactionFailedError,
  type TransactionLike,
  TransactionOverError,
} from "nestjs-pg-jobs";
import pg from "pg";
import { DataSource } from "typeorm";
import { Bench, behindPooler } from "../support/harness.js";
import { Hands } from "../support/hands.js";
import { openFor, until } from "../support/until.js";

// A job that is enqueued in the caller's transaction exists if and only if that commits.

let bench: Bench;
let jobs: JobQueue;
let hands: Hands;
let dataSource: DataSource;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
  hands = await Hands.open(bench);
  dataSource = await new DataSource({ type: "postgres", url: bench.url }).initialize();
});
afterAll(async () => {
  await dataSource.destroy();
  await bench.close();
});
beforeEach(async () => void (await bench.sql("truncate jobs.job, jobs.done")));

const ids = async () =>
  (await bench.sql<{ id: string }>("select id from jobs.job_status order by number")).map(
    ({ id }) => id,
  );

class Rollback extends Error {}

type Run = (work: (tx: TransactionLike) => Promise<unknown>) => Promise<unknown>;

async function onClient(client: pg.ClientBase, work: (tx: TransactionLike) => Promise<unknown>) {
  await client.query("begin");
  try {
    await work(client);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

const CALLERS: Record<string, Run> = {
  "a TypeORM EntityManager": async (work) => await dataSource.transaction(work),
  "a TypeORM QueryRunner": async (work) => {
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      await work(runner);
      await runner.commitTransaction();
    } catch (error) {
      await runner.rollbackTransaction();
      throw error;
    } finally {
      await runner.release();
    }
  },
  "a pg client": async (work) => {
    const client = new pg.Client({ connectionString: bench.url });
    await client.connect();
    try {
      await onClient(client, work);
    } finally {
      await client.end();
    }
  },
  "a pg pool's client": async (work) => {
    const client = await bench.client();
    await onClient(client, work).finally(() => client.release());
  },
};

describe.each(Object.entries(CALLERS))("in the transaction of %s", (caller, within) => {
  it("a job is there after the commit, and no worker sees it before", async () => {
    const made: string[] = [];
    await within(async (tx) => {
      const one = await jobs.in(tx).enqueue("work", { n: 1 }, { delay: 0 });
      const many = await jobs
        .in(tx)
        .enqueueMany("work", [{ n: 2 }, { payload: { n: 3 }, queue: "other", attempts: 2 }]);
      made.push(...[one, ...many].map(({ id }) => id));
      expect(await hands.claim(await hands.worker())).toEqual([]);
      expect(await ids()).toEqual([]);
    });
    expect((await ids()).sort()).toEqual(made.toSorted());
    const payloads = await Promise.all(made.map(async (id) => (await jobs.get(id))!.payload));
    expect(payloads).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(await jobs.get(made[2]!)).toMatchObject({ queue: "other", attempts: 2 });
  });

  it("a rollback takes it back", async () => {
    const call = within(async (tx) => {
      await jobs.in(tx).enqueue("work", {});
      await jobs.in(tx).enqueueMany("work", [{}, { payload: {}, key: "k" }]);
      throw new Rollback();
    });
    await expect(call).rejects.toThrow(Rollback);
    expect(await ids()).toEqual([]);
  });

  it("a rollback to a savepoint takes back what came after it", async () => {
    let kept = "";
    await within(async (tx) => {
      ({ id: kept } = await jobs.in(tx).enqueue("work", {}));
      await tx.query("savepoint s");
      await jobs.in(tx).enqueue("work", {}, { key: "k" });
      await tx.query("rollback to savepoint s");
    });
    expect(await ids()).toEqual([kept]);
  });

  it.each<[string, EnqueueOptions]>([
    ["no option", {}],
    ["a key", { key: "plain" }],
    ["a window", { key: "windowed", window: "1h" }],
  ])("a delay counts from the call, not from its beginning: with %s", async (_, options) => {
    const made: string[] = [];
    await within(async (tx) => {
      await openFor(tx, 300);
      for (const delay of [0, "3s"]) {
        const named = options.key ? { ...options, key: `${options.key} ${delay} ${caller}` } : {};
        made.push((await jobs.in(tx).enqueue("work", {}, { ...named, delay })).id);
      }
    });
    const [atOnce, later] = await Promise.all(made.map(async (id) => (await jobs.get(id))!));
    const waits = ({ runAt, createdAt }: JobView) => Date.parse(runAt) - Date.parse(createdAt);
    expect(waits(atOnce!)).toBeGreaterThan(298);
    expect(waits(later!)).toBeGreaterThan(3_298);
  });

  it("a key holds, inside and outside", async () => {
    const outside = await jobs.enqueue("work", {}, { key: "it's \"{,}\\" });
    await within(async (tx) => {
      const first = await jobs.in(tx).enqueue("work", {}, { key: "inside" });
      expect(first.deduplicated).toBe(false);
      expect(await jobs.in(tx).enqueue("work", {}, { key: "inside" })).toEqual({
        id: first.id,
        deduplicated: true,
      });
      expect(await jobs.in(tx).enqueue("work", {}, { key: "it's \"{,}\\" })).toEqual({
        id: outside.id,
        deduplicated: true,
      });
    });
    expect(await ids()).toHaveLength(2);
  });

  it("a queue and kind that it used first are there after its rollback", async () => {
    const fresh = { queue: `q-${Math.random()}` };
    const kind = `k-${Math.random()}`;
    const call = within(async (tx) => {
      await jobs.in(tx).enqueue(kind, {}, fresh);
      throw new Rollback();
    });
    await expect(call).rejects.toThrow(Rollback);
    const { id } = await jobs.enqueue(kind, {}, fresh);
    const view = "select kind, queue, state from jobs.job_status where id = $1";
    expect(await bench.sql(view, [id])).toEqual([{ kind, ...fresh, state: "queued" }]);
  });

  it("that has failed it is refused by name, with the cause, and nothing is there", async () => {
    const { id } = await jobs.enqueue("work", {});
    const refusals: unknown[] = [];
    const call = within(async (tx) => {
      await tx.query("select 1 / 0").catch(() => undefined);
      for (const refused of [
        () => jobs.in(tx).enqueue("work", {}),
        () => jobs.in(tx).enqueue("work", {}, { key: "k", window: "1h" }),
        () => jobs.in(tx).enqueueMany("work", [{}, { payload: {}, key: "k" }]),
        () => jobs.in(tx).cancel(id),
      ])
        refusals.push(await refused().catch((error: unknown) => error));
      throw new Rollback();
    });
    await expect(call).rejects.toThrow(Rollback);
    expect(refusals).toHaveLength(4);
    for (const refusal of refusals) {
      expect(refusal).toBeInstanceOf(TransactionFailedError);
      expect(refusal).toMatchObject({ id: null, cause: { code: "25P02" } });
    }
    expect(await ids()).toEqual([id]);
    expect(await bench.state(id)).toBe("queued");
  });

  it("a bad payload is refused before anything is sent, so that the transaction goes on", async () => {
    await within(async (tx) => {
      await expect(jobs.in(tx).enqueue("work", { n: NaN })).rejects.toMatchObject({
        code: "PAYLOAD_NOT_JSON",
      });
      await expect(jobs.in(tx).enqueueMany("work", [1, 2n])).rejects.toMatchObject({ index: 1 });
      await jobs.in(tx).enqueue("work", {});
    });
    expect(await ids()).toHaveLength(1);
  });
});

describe.each(Object.entries(CALLERS))("without the tables, %s", (_, within) => {
  it("is told that they are gone, each time", async () => {
    const gone = await Bench.open();
    try {
      const ours = await gone.producer();
      await ours.enqueue("work", {});
      await gone.sql(`drop schema ${gone.schema} cascade`);
      for (let time = 1; time <= 2; time++) {
        const error = await within(async (tx) => await ours.in(tx).enqueue("work", {})).catch(
          (thrown: unknown) => thrown,
        );
        expect(error).toBeInstanceOf(SchemaNotReadyError);
        expect((error as Error).message).toContain('Run "pg-jobs migrate"');
      }
    } finally {
      await gone.close();
    }
  });
});

it("a transaction of another database is told that it may be that", async () => {
  const name = `other_${Date.now()}`;
  await bench.sql(`create database ${name}`);
  const url = new URL(bench.direct);
  url.pathname = `/${name}`;
  const other = await new DataSource({ type: "postgres", url: url.href }).initialize();
  try {
    const { id } = await jobs.enqueue("work", {});
    const calls: ((tx: TransactionLike) => Promise<unknown>)[] = [
      (tx) => jobs.in(tx).enqueue("work", {}),
      (tx) => jobs.in(tx).enqueue("work", {}, { key: "k" }),
      (tx) => jobs.in(tx).cancel(id),
    ];
    for (const call of calls) {
      const error = await other.transaction(call).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(SchemaNotReadyError);
      expect((error as Error).message).toContain("Is the transaction one of another database?");
    }
  } finally {
    await other.destroy();
    await bench.sql(`drop database ${name}`);
  }
});

describe("what is no transaction", () => {
  it.each<[string, () => unknown]>([
    ["a pg pool", () => new pg.Pool({ connectionString: bench.url })],
    ["a DataSource", () => dataSource],
    ["the DataSource's own manager", () => dataSource.manager],
    ["nothing", () => undefined],
    ["null", () => null],
    ["a connection string", () => bench.url],
    ["an object", () => ({})],
    ["an object whose query is no function", () => ({ query: "select 1" })],
  ])("is refused: %s", (_, make) => {
    expect(() => jobs.in(make() as TransactionLike)).toThrow(OptionsError);
    expect(() => jobs.in(make() as TransactionLike)).toThrow(/EntityManager or QueryRunner/);
  });
});

describe("a TypeORM QueryRunner", () => {
  it("without a transaction is refused: before it is started, and after it has ended", async () => {
    const runner = dataSource.createQueryRunner();
    try {
      for (const tx of [runner, runner.manager]) {
        expect(() => jobs.in(tx)).toThrow(OptionsError);
        expect(() => jobs.in(tx)).toThrow(/without an active transaction: call startTransaction/);
      }
      await runner.startTransaction();
      const kept = [jobs.in(runner), jobs.in(runner.manager)];
      for (const queue of kept) await queue.enqueue("work", {});
      await runner.commitTransaction();
      for (const queue of kept) {
        await expect(queue.enqueue("work", {})).rejects.toThrow(OptionsError);
        await expect(queue.enqueueMany("work", [{}])).rejects.toThrow(OptionsError);
      }
    } finally {
      await runner.release();
    }
    expect(await ids()).toHaveLength(2);
  });

  it.each(["runner", "manager"] as const)(
    "whose server process has died is refused by name, with the cause: its %s",
    async (which) => {
      const { id } = await jobs.enqueue("work", {});
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      const kept = jobs.in(which === "runner" ? runner : runner.manager);
      const [{ pid }] = (await runner.query("select pg_backend_pid() as pid")) as [{ pid: number }];
      await bench.sql("select pg_terminate_backend($1)", [pid]);
      await until(() => runner.isReleased, { what: "TypeORM has seen it" });
      for (const call of [
        () => kept.enqueue("work", {}),
        () => kept.enqueueMany("work", [{}]),
        () => kept.cancel(id),
      ]) {
        const error = await call().catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(TransactionOverError);
        expect(error).toMatchObject({ id: null, cause: expect.any(Error) as Error });
      }
      expect(await ids()).toEqual([id]);
      expect(await bench.state(id)).toBe("queued");
    },
  );

  it.each(["commit", "rollback"])(
    "whose transaction a query has ended is refused: %s",
    async (end) => {
      const { id } = await jobs.enqueue("work", {});
      const runner = dataSource.createQueryRunner();
      try {
        await runner.startTransaction();
        const kept = [jobs.in(runner), jobs.in(runner.manager)];
        await runner.query(end);
        expect(runner.isTransactionActive).toBe(true);
        for (const tx of [runner, runner.manager]) expect(() => jobs.in(tx)).toThrow(OptionsError);
        for (const queue of kept) {
          await expect(queue.enqueue("work", {})).rejects.toThrow(
            /a connection outside a transaction/,
          );
          await expect(queue.enqueueMany("work", [{}])).rejects.toThrow(OptionsError);
          await expect(queue.cancel(id)).rejects.toThrow(OptionsError);
        }
        await runner.rollbackTransaction();
      } finally {
        await runner.release();
      }
      expect(await ids()).toEqual([id]);
      expect(await bench.state(id)).toBe("queued");
    },
  );
});

describe("a pg client", () => {
  let client: pg.Client;
  beforeEach(async () => {
    client = new pg.Client({ connectionString: bench.url });
    await client.connect();
  });
  afterEach(async () => await client.end());

  it("without a transaction is refused: before its begin is answered, and after it has ended", async () => {
    const { id } = await jobs.enqueue("work", {});
    expect(() => jobs.in(client)).toThrow(OptionsError);
    expect(() => jobs.in(client)).toThrow(
      /a connection outside a transaction: await its begin first/,
    );
    for (const end of ["commit", "rollback"]) {
      const begun = client.query("begin");
      expect(() => jobs.in(client)).toThrow(OptionsError);
      await begun;
      const kept = jobs.in(client);
      await client.query(end);
      expect(() => jobs.in(client)).toThrow(OptionsError);
      await expect(kept.enqueue("work", {})).rejects.toThrow(OptionsError);
      await expect(kept.enqueueMany("work", [{}])).rejects.toThrow(OptionsError);
      await expect(kept.cancel(id)).rejects.toThrow(OptionsError);
    }
    expect(await ids()).toEqual([id]);
    expect(await bench.state(id)).toBe("queued");
  });

  it("that is not connected yet is refused", () => {
    expect(() => jobs.in(new pg.Client({ connectionString: bench.url }))).toThrow(OptionsError);
  });

  it("that cannot say whether it is in one is taken at its word", async () => {
    const old: TransactionLike = { query: (sql, params) => client.query(sql, params) };
    await client.query("begin");
    const { id } = await jobs.in(old).enqueue("work", {});
    await client.query("commit");
    expect(await ids()).toEqual([id]);
  });

  it("that is closed, or lost, is refused by name, with the cause", async () => {
    await client.query("begin");
    const closed = jobs.in(client);
    await client.end();
    const lost = new pg.Client({ connectionString: bench.url });
    lost.on("error", () => undefined);
    await lost.connect();
    await lost.query("begin");
    const gone = jobs.in(lost);
    (
      lost as unknown as { connection: { stream: { destroy(): void } } }
    ).connection.stream.destroy();
    for (const queue of [closed, gone])
      for (const call of [queue.enqueue("work", {}), queue.enqueueMany("work", [{}])]) {
        const error = await call.catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(TransactionOverError);
        expect(error).toMatchObject({ id: null, cause: expect.any(Error) as Error });
      }
    expect(await ids()).toEqual([]);
  });
});

// Not behind a pooler: the two hold the pool's two connections, and none is left for us to make lanes on.
(behindPooler ? describe.skip : describe)("two transactions with the same keys", () => {
  it("in opposite order of queues do not wait for one another", async () => {
    for (let round = 0; round < 20; round++) {
      const items = ["one", "two"].map((queue) => ({ payload: {}, queue, key: `${round}` }));
      const both = [items, items.toReversed()].map(
        async (list) =>
          await dataSource.transaction(async (tx) => await jobs.in(tx).enqueueMany("work", list)),
      );
      const [forth, back] = await Promise.all(both);
      expect(back!.toReversed().map(({ id }) => id)).toEqual(forth!.map(({ id }) => id));
    }
    expect(await ids()).toHaveLength(40);
  });
});
