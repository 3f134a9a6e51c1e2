import { setTimeout as sleep } from "node:timers/promises";
import { Injectable } from "@nestjs/common";
import {
  Events,
  JobInspector,
  JobQueue,
  type JobContext,
  type JobEvent,
  type JobsOptions,
  LeaseLostError,
  TransactionUsedError,
  defineJob,
  skip,
  snooze,
} from "nestjs-pg-jobs";
import pg from "pg";
import { DataSource, type EntityManager } from "typeorm";
import { Database } from "../../libs/jobs/src/pg/database.js";
import { Gate, handler, reached, row } from "../support/handlers.js";
import { Bench, databaseUrl } from "../support/harness.js";
import { until } from "../support/until.js";

type Body = (job: JobContext) => unknown;
type Queryable = { query(sql: string, values?: unknown[]): Promise<unknown> };
type Pay = (tx: Queryable) => Promise<void>;

let bench: Bench;
let dataSource: DataSource;
beforeAll(async () => {
  bench = await Bench.open();
  await bench.sql("create table jobs.payment (job text not null, amount integer not null)");
  dataSource = await new DataSource({ type: "postgres", url: bench.url }).initialize();
});
afterAll(async () => {
  await bench.close();
  await dataSource.destroy();
});
beforeEach(async () => await bench.sql("truncate jobs.payment"));
afterEach(async () => await bench.closeApps());

const fixed = { delay: () => 0 };
const payFor =
  (job: JobContext): Pay =>
  async (tx) =>
    void (await tx.query(`insert into ${bench.schema}.payment (job, amount) values ($1, 5)`, [
      job.id,
    ]));
const payments = async () =>
  (await bench.sql<{ job: string }>("select job from jobs.payment")).map(({ job }) => job);

let kinds = 0;
/** Runs one job with this body, and says what was told of it. */
async function start(
  body: Body,
  {
    options = {},
    attempts = 1,
    timeout = "1m",
    worker = {},
  }: { options?: Partial<JobsOptions>; attempts?: number; timeout?: string; worker?: object } = {},
) {
  const kind = defineJob(`pay.${++kinds}`, { attempts, timeout, backoff: fixed });
  const app = await bench.worker([handler(kind, (_, job) => body(job))], worker, options);
  const told: JobEvent[] = [];
  app
    .get(Events)
    .on(["succeeded", "threw-late", "lost", "retried", "died", "handed-back"], (event) =>
      told.push(event),
    );
  const { id } = await app.get(JobQueue).enqueue(kind, {});
  return { app, id, told, names: () => told.map(({ event }) => event) };
}

/** Both ways of doing the same. */
const ways: [string, <T>(job: JobContext, fn: (tx: Queryable) => Promise<T>) => Promise<T>][] = [
  ["on a connection of ours", (job, fn) => job.transaction(fn)],
  ["with a DataSource", (job, fn) => job.transaction(dataSource, fn)],
];

describe.each(ways)("job.transaction() %s", (way, transaction) => {
  it("commits what it writes together with the success; its value is the result", async () => {
    let inside: unknown;
    const { id, names, app } = await start(async (job) => {
      const value = await transaction(job, async (tx) => {
        await payFor(job)(tx);
        inside = [await payments(), await bench.state(job.id)];
        return { paid: 5 };
      });
      inside = [...(inside as unknown[]), value, await bench.state(job.id)];
      return "not the result";
    });
    expect((await reached(bench, id, "succeeded")).result).toEqual({ paid: 5 });
    await until(() => (inside as unknown[]).length === 4, { what: "the body is over" });
    expect(inside).toEqual([[], "running", { paid: 5 }, "succeeded"]);
    expect(await payments()).toEqual([id]);
    await app.close();
    expect(names()).toEqual(["succeeded"]);
  });

  it("rolls back what throws, and that is an ordinary failure", async () => {
    const { id, names } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await payFor(job)(tx);
          if (job.failures === 0) throw new Error("no");
        }),
      { attempts: 2 },
    );
    expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 2, failures: 1 });
    expect(await payments()).toEqual([id]);
    // The row is there before the worker has its answer.
    await until(() => names().length >= 2, { what: "both events" });
    expect(names()).toEqual(["retried", "succeeded"]);
  });

  it("rolls back a failed statement that nobody minded", async () => {
    const ours = way === "on a connection of ours";
    const { id, app } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await payFor(job)(tx);
          await tx.query("savepoint one");
          await tx.query("select no_such_column").catch(() => undefined);
          await tx.query("rollback to one");
          await tx.query("select 1 / 0").catch(() => undefined);
        }),
    );
    expect((await reached(bench, id, "dead")).last_error).toMatch(/statement in it had failed/);
    expect(await payments()).toEqual([]);
    const [attempt] = await app.get(JobInspector).attempts(id);
    expect(attempt!.error).toMatchObject({
      code: "TRANSACTION_FAILED",
      // Of a connection that is not ours nobody knows which one it was.
      cause: { code: ours ? "22012" : "25P02" },
    });
  });

  it.each([
    ["thrown", false],
    ["returned", true],
  ])("rolls back for a verdict, %s inside, that then holds", async (_what, returned) => {
    const { id } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await payFor(job)(tx);
          if (returned) return skip("nothing to pay");
          throw skip("nothing to pay");
        }),
    );
    expect((await reached(bench, id, "skipped")).result).toEqual({ reason: "nothing to pay" });
    expect(await payments()).toEqual([]);
  });

  it("is there once per attempt, also when two are called at once", async () => {
    let second: unknown;
    let third: unknown;
    const { id } = await start(async (job) => {
      const first = transaction(job, payFor(job));
      second = await transaction(job, payFor(job)).catch((error: unknown) => error);
      await first;
      third = await transaction(job, payFor(job)).catch((error: unknown) => error);
    });
    await reached(bench, id, "succeeded");
    await until(() => third, { what: "the third call" });
    for (const error of [second, third]) {
      expect(error).toBeInstanceOf(TransactionUsedError);
      expect(error).toMatchObject({ code: "TRANSACTION_USED", id });
    }
    expect(await payments()).toEqual([id]);
  });

  it("is not there again when it has failed; the first failure is the cause of the refusal", async () => {
    const { id, app } = await start(async (job) => {
      const failing = async () => {
        await transaction(job, async (tx) => {
          await payFor(job)(tx);
          throw new Error("no money");
        });
      };
      await failing().catch(failing).catch(failing);
    });
    expect((await reached(bench, id, "dead")).last_error).toMatch(
      /found another after the first has failed/,
    );
    const [attempt] = await app.get(JobInspector).attempts(id);
    expect(attempt!.error).toMatchObject({
      code: "TRANSACTION_USED",
      cause: { message: "no money" },
    });
    const [letter] = await bench.sql(
      "select error from jobs.dead where queue_id || '-' || id = $1",
      [id],
    );
    expect(letter).toMatchObject({ error: { cause: { message: "no money" } } });
    expect(await payments()).toEqual([]);
  });

  it("has settled the attempt: a later throw, or verdict, is an event and no failure", async () => {
    const { id, names, told, app } = await start(
      async (job) => {
        await transaction(job, payFor(job));
        throw new Error("too late");
      },
      { attempts: 3 },
    );
    await until(() => told.length === 2, { what: "both events" });
    expect(names()).toEqual(["succeeded", "threw-late"]);
    expect(told[1]!.error).toMatchObject({ message: "too late" });
    await app.close();
    expect(await row(bench, id)).toMatchObject({ state: "succeeded", attempt: 1, failures: 0 });
    const other = await start(async (job) => {
      await transaction(job, payFor(job));
      return snooze("1s");
    });
    await until(() => other.told.length === 2, { what: "both events" });
    expect(other.names()).toEqual(["succeeded", "threw-late"]);
    expect(await bench.state(other.id)).toBe("succeeded");
  });

  it("decides the attempt, also when the body does not wait for it", async () => {
    const good = await start((job) => {
      void transaction(job, async (tx) => {
        await sleep(50);
        await payFor(job)(tx);
      });
      return "early";
    });
    await reached(bench, good.id, "succeeded");
    expect(await payments()).toEqual([good.id]);
    const bad = await start((job) => {
      void transaction(job, async (tx) => {
        await payFor(job)(tx);
        await sleep(50);
        throw new Error("not awaited");
      });
      return "early";
    });
    expect((await reached(bench, bad.id, "dead")).last_error).toBe("not awaited");
    expect(await payments()).toEqual([good.id]);
  });

  it("rolls back when the job is in other hands, and says so", async () => {
    let error: unknown;
    const gate = new Gate();
    const { id, names } = await start(async (job) => {
      await transaction(job, async (tx) => {
        await payFor(job)(tx);
        const [queue, number] = job.id.split("-");
        if (job.attempt === 1)
          await bench.sql(
            "update jobs.job set attempt = attempt + 1, worker = worker + 1000, lease_until = now() + interval '1 h' where queue_id = $1 and id = $2",
            [queue, number],
          );
      }).catch((reason: unknown) => (error = reason));
      gate.open();
    });
    await gate.opened;
    expect(error).toBeInstanceOf(LeaseLostError);
    await until(() => names().includes("lost"), { what: "it is told" });
    expect(await payments()).toEqual([]);
    expect(await bench.state(id)).toBe("running");
  });

  it("rolls back at the timeout, which is a failure", async () => {
    const { id, names } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await payFor(job)(tx);
          await sleep(60_000, undefined, { signal: job.signal });
        }),
      { timeout: "300ms" },
    );
    expect((await reached(bench, id, "dead")).last_error).toMatch(/within 300 ms/);
    expect(await payments()).toEqual([]);
    await until(() => names().length > 0, { what: "it is told" });
    expect(names()).toEqual(["died"]);
  });

  it("does not begin its work when the attempt is over", async () => {
    let job: JobContext | undefined;
    const { id } = await start((now) => void (job = now));
    await reached(bench, id, "succeeded");
    let ran = false;
    await expect(transaction(job!, async () => void (ran = true))).rejects.toBeInstanceOf(
      LeaseLostError,
    );
    expect(ran).toBe(false);
  });

  it("holds no lock on its job, and leases are renewed meanwhile", async () => {
    const { id } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await payFor(job)(tx);
          const lease = async () => {
            const [found] = await bench.sql<{ at: number }>(
              "select extract(epoch from lease_until)::float8 as at from jobs.job where queue_id || '-' || id = $1 for update",
              [job.id],
            );
            return found!.at;
          };
          const first = await lease();
          await until(async () => (await lease()) > first, { what: "the lease is renewed" });
        }),
      { worker: { lease: "3s" } },
    );
    await reached(bench, id, "succeeded");
  });

  it("stores a result by the same limits as any other", async () => {
    const { id } = await start(
      async (job) => await transaction(job, async () => ({ at: new Date(0), big: undefined })),
    );
    expect((await reached(bench, id, "succeeded")).result).toEqual({
      at: "1970-01-01T00:00:00.000Z",
    });
    const other = await start(async (job) => await transaction(job, async () => ({ n: 1n })));
    expect((await reached(bench, other.id, "succeeded")).result).toEqual({
      "nestjs-pg-jobs:result-not-stored": expect.stringContaining("found a BigInt"),
    });
  });

  it.each<[string, string[], string[]]>([
    ["rollback", ["rollback"], []],
    ["rollback, as a helper that tries again does", ["rollback", "begin"], []],
    ["rollback and chain", ["rollback and chain"], []],
    ["commit, whose writes stay", ["commit"], ["before"]],
    ["commit and begin, whose writes stay", ["commit; begin"], ["before"]],
    ["commit and chain, whose writes stay", ["commit and chain"], ["before"]],
  ])("refuses to go on when fn has ended the transaction: %s", async (_what, ends, left) => {
    const pay = async (tx: Queryable, what: string) =>
      void (await tx.query(`insert into ${bench.schema}.payment (job, amount) values ($1, 5)`, [
        what,
      ]));
    const { id, app } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await pay(tx, "before");
          for (const end of ends) await tx.query(end);
          if (ends.join(" ").match(/begin|chain/)) await pay(tx, "after");
          return "paid";
        }),
    );
    expect(await reached(bench, id, "dead")).toMatchObject({ result: null });
    const [attempt] = await app.get(JobInspector).attempts(id);
    expect(attempt!.error).toMatchObject({
      name: "TransactionEndedError",
      code: "TRANSACTION_ENDED",
      message: expect.stringMatching(/fn has ended it, by commit or rollback/) as string,
    });
    expect(await payments()).toEqual(left);
  });

  it("knows its transaction by nothing that fn may do in it: savepoints, names, levels", async () => {
    const { id } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          // On a connection of ours nothing has taken a snapshot yet.
          if (way === "on a connection of ours")
            await tx.query("set transaction isolation level repeatable read");
          await tx.query("savepoint one");
          await payFor(job)(tx);
          await tx.query("set local application_name = 'mine'; set local timezone = 'Asia/Tokyo'");
          await tx.query("rollback to one; release one; savepoint two");
          await payFor(job)(tx);
          await tx.query("release two");
        }),
    );
    await reached(bench, id, "succeeded");
    expect(await payments()).toEqual([id]);
  });

  it("refuses it for jobs that are not kept, too", async () => {
    const worker = { queues: { default: { keep: false } } };
    const { id, app } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await payFor(job)(tx);
          if (job.failures === 0) await tx.query("rollback; begin");
        }),
      { attempts: 2, worker },
    );
    await until(async () => (await app.get(JobInspector).get(id)) === null, { what: "it is gone" });
    expect(await payments()).toEqual([id]);
    expect(
      (
        await bench.sql(
          "select from jobs.attempt_error where failed_at > now() - interval '1 h' and error ->> 'code' = 'TRANSACTION_ENDED' and attempt = 1 and queue_id || '-' || job_id = $1",
          [id],
        )
      ).length,
    ).toBe(1);
  });

  it("has ended when it has, not when its transaction began; also in what its history says", async () => {
    const clock = async () =>
      (await bench.sql<{ at: string }>("select clock_timestamp()::text as at"))[0]!.at;
    for (const keep of [true, false]) {
      let before = "";
      let asked: unknown;
      const { id, app } = await start(
        async (job) =>
          await transaction(job, async (tx) => {
            await payFor(job)(tx);
            before = await clock();
            // Its signal comes too late: what has been done is committed.
            asked = await app.get(JobQueue).cancel(job.id);
          }),
        { worker: { queues: { default: { history: "full", keep } } } },
      );
      const ended = async () => {
        const told = await app.get(JobInspector).history(id);
        return told.at(-1)?.event === "succeeded" ? told : undefined;
      };
      await until(async () => await ended(), { what: "it has succeeded" });
      const after = await clock();
      expect(asked).toBe("requested");
      expect((await ended())!.map(({ event }) => event).slice(-2)).toEqual([
        "cancel-requested",
        "succeeded",
      ]);
      const times = await bench.sql<{ within: boolean }>(
        `select at between $2 and $3 as within from (
          select finished_at as at from jobs.done where queue_id || '-' || id = $1
          union all
          select at from jobs.event where event = 'succeeded' and queue_id || '-' || job_id = $1) ends`,
        [id, before, after],
      );
      expect(times).toEqual(Array.from({ length: keep ? 2 : 1 }, () => ({ within: true })));
      await app.close();
    }
  });

  it("enqueues with jobs.in(tx) in the same transaction", async () => {
    let jobs: JobQueue;
    const { id, app } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await jobs.in(tx).enqueue("child", { of: job.id, attempt: job.attempt });
          if (job.failures === 0) throw new Error("again");
        }),
      { attempts: 2 },
    );
    jobs = app.get(JobQueue);
    await reached(bench, id, "succeeded");
    const children = await bench.sql<{ payload: object }>(
      "select payload from jobs.job_status where kind = 'child' and payload ->> 'of' = $1",
      [id],
    );
    expect(children).toEqual([{ payload: { of: id, attempt: 2 } }]);
  });

  it("drains: what does not end in the grace period is rolled back and handed back", async () => {
    const gate = new Gate();
    const { id, app, names } = await start(
      async (job) =>
        await transaction(job, async (tx) => {
          await payFor(job)(tx);
          gate.open();
          await sleep(60_000, undefined, { signal: job.signal });
        }),
      { worker: { grace: "100ms" } },
    );
    await gate.opened;
    await app.close();
    expect(await row(bench, id)).toMatchObject({ state: "queued", failures: 0 });
    expect(await payments()).toEqual([]);
    expect(names()).toEqual(["handed-back"]);
  });
});

describe("job.transaction(fn), the connections", () => {
  it("never opens more than are left; who comes later waits for a free one", async () => {
    const kind = defineJob("many", { attempts: 1 });
    let most = 0;
    let now = 0;
    const app = await bench.worker(
      [
        handler(kind, async (_, job) => {
          await job.transaction(async (client) => {
            most = Math.max(most, ++now);
            await payFor(job)(client);
            await sleep(30);
            now--;
          });
        }),
      ],
      { queues: { default: { concurrency: 20, prefetch: 20 } } },
      { connections: 7 },
    );
    const made = await app.get(JobQueue).enqueueMany(
      kind,
      Array.from({ length: 30 }, () => ({})),
    );
    await until(async () => (await payments()).length === 30, { what: "all have paid" });
    expect(new Set(await payments()).size).toBe(30);
    for (const { id } of made) await reached(bench, id, "succeeded");
    expect(most).toBe(2);
    const { clients } = app.get(Database);
    expect({ open: clients.open, waiting: clients.waiting }).toEqual({ open: 2, waiting: 0 });
    await app.close();
  });

  it("says what to do when none is left at all", async () => {
    const { id } = await start(async (job) => await job.transaction(payFor(job)), {
      options: { connections: 5 },
    });
    expect((await reached(bench, id, "dead")).last_error).toMatch(
      /connections: expected one more .* found none left; raise it, or pass a DataSource/,
    );
  });

  it("stops waiting for one at the timeout, and leaves no waiter behind", async () => {
    const gate = new Gate();
    const first = defineJob("holds", { attempts: 1 });
    const second = defineJob("waits", { attempts: 1, timeout: "200ms" });
    const app = await bench.worker(
      [
        handler(first, async (_, job) => await job.transaction(async () => await gate.opened)),
        handler(second, async (_, job) => await job.transaction(payFor(job))),
      ],
      {},
      { connections: 6 },
    );
    const jobs = app.get(JobQueue);
    const holder = await jobs.enqueue(first, {});
    await until(async () => (await bench.state(holder.id)) === "running", { what: "it holds" });
    const waiter = await jobs.enqueue(second, {});
    expect((await reached(bench, waiter.id, "dead")).last_error).toMatch(/within 200 ms/);
    gate.open();
    await reached(bench, holder.id, "succeeded");
    expect(await payments()).toEqual([]);
  });

  it("is bounded in time, and refuses what comes when it is over", async () => {
    let settings: unknown;
    let leaked: pg.ClientBase | undefined;
    let late: unknown;
    const { id } = await start(async (job) => {
      await job.transaction(async (client) => {
        leaked = client;
        settings = (
          await client.query<{ setting: string }>(
            "select current_setting(name) as setting from unnest(array['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']) name",
          )
        ).rows.map(({ setting }) => setting);
      });
      late = await leaked!.query("select 1").catch((error: unknown) => error);
    });
    await reached(bench, id, "succeeded");
    await until(() => late, { what: "the late query" });
    expect(settings).toEqual(["1min", "10s", "1min"]);
    expect(late).toMatchObject({ code: "TRANSACTION_OVER", id });
  });

  it("answers what comes when it is over in the way that was asked for", async () => {
    const told: unknown[] = [];
    const unhandled: unknown[] = [];
    const hear = (reason: unknown) => void unhandled.push(reason);
    process.on("unhandledRejection", hear);
    try {
      const { id } = await start(async (job) => {
        let leaked: pg.ClientBase | undefined;
        await job.transaction(async (client) => void (leaked = client));
        const tell = (error: unknown) => void told.push(error);
        leaked!.query("select 1", tell);
        leaked!.query("select $1", [1], tell);
        leaked!.query(new pg.Query("select 1", tell));
      });
      await reached(bench, id, "succeeded");
      await until(() => told.length === 3, { what: "all are answered" });
      for (const error of told) expect(error).toMatchObject({ code: "TRANSACTION_OVER", id });
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled).toEqual([]);
    } finally {
      process.off("unhandledRejection", hear);
    }
  });

  it.each(["commits", "rolls back"])(
    "lends it as it was at first, whatever a transaction that %s has made of it",
    async (how) => {
      const events = ["notice", "notification", "error", "end", "drain"];
      const facts: object[] = [];
      const notices: unknown[] = [];
      const look = async (client: pg.ClientBase) => {
        const { rows } = await client.query<Record<string, unknown>>({
          name: "look",
          text: `select pg_backend_pid() as pid, current_setting('default_transaction_read_only') as read_only,
              current_setting('search_path') as path, current_setting('role') as role,
              (select count(*)::int from pg_prepared_statements where name <> 'look') as prepared,
              (select count(*)::int from pg_cursors where name = 'held') as cursors,
              (select count(*)::int from pg_locks where pid = pg_backend_pid() and locktype = 'advisory') as locks,
              (select count(*)::int from pg_listening_channels()) as channels,
              to_regclass('pg_temp.mine')::text as temporary`,
        });
        facts.push({ ...rows[0], listeners: events.map((name) => client.listenerCount(name)) });
      };
      const kind = defineJob(`session.${how}`, { attempts: 1 });
      const app = await bench.worker(
        [
          handler(kind, async (_, job) => {
            await job.transaction(async (client) => {
              await look(client);
              if (facts.length > 1) {
                await client.query({ name: "mine", text: "select 'another'" });
                await client.query("do $$ begin raise notice 'second'; end $$");
                return await payFor(job)(client);
              }
              for (const name of events) client.on(name as "notice", (said) => notices.push(said));
              await client.query("do $$ begin raise notice 'first'; end $$");
              await client.query({ name: "mine", text: "select 'one'" });
              // What a transaction sets is gone with it when it is rolled back; the rest is not.
              await client.query("prepare yours as select 1");
              await client.query("select pg_advisory_lock(77)");
              await client.query("listen mine");
              await client.query("declare held cursor with hold for select 1");
              await client.query("create temporary table mine (n integer)");
              await client.query("set search_path = pg_catalog; set role pg_monitor");
              await client.query("set default_transaction_read_only = on; reset role");
              if (how === "rolls back") throw new Error("no");
            });
          }),
        ],
        {},
        { connections: 6, connection: { url: bench.direct } },
      );
      const jobs = app.get(JobQueue);
      const one = await jobs.enqueue(kind, {});
      await reached(bench, one.id, how === "commits" ? "succeeded" : "dead");
      const two = await jobs.enqueue(kind, {});
      expect((await reached(bench, two.id, "succeeded")).last_error).toBeNull();
      expect(facts[1]).toEqual(facts[0]);
      expect(facts[0]).toMatchObject({ read_only: "off", prepared: 0, locks: 0, channels: 0 });
      expect(notices.map((said) => (said as Error | undefined)?.message)).toContain("first");
      expect(notices.map((said) => (said as Error | undefined)?.message)).not.toContain("second");
      expect(await payments()).toEqual([two.id]);
    },
  );

  it("does not lend a client again whose own ways were changed", async () => {
    const values: unknown[] = [];
    const kind = defineJob("parsed", { attempts: 1 });
    const app = await bench.worker(
      [
        handler(kind, async (_, job) => {
          await job.transaction(async (client) => {
            if (values.length === 0) client.setTypeParser(23, () => "changed");
            values.push((await client.query<{ n: unknown }>("select 1 as n")).rows[0]!.n);
          });
        }),
      ],
      {},
      { connections: 6 },
    );
    for (let n = 0; n < 2; n++)
      await reached(bench, (await app.get(JobQueue).enqueue(kind, {})).id, "succeeded");
    expect(values).toEqual(["changed", 1]);
  });

  it("ends a statement that does not heed the signal", async () => {
    const { id } = await start(
      async (job) =>
        await job.transaction(async (client) => await client.query("select pg_sleep(50)")),
      { timeout: "300ms" },
    );
    await reached(bench, id, "dead");
    await until(
      async () =>
        (
          await bench.sql(
            "select 1 from pg_stat_activity where query like '%pg_sleep(50)%' and pid <> pg_backend_pid()",
          )
        ).length === 0,
      { what: "the server process is gone" },
    );
  });

  it("has failed when a statement that was sent past us has failed the commit", async () => {
    const { id, app } = await start(
      async (job) =>
        await job.transaction(async (client) => {
          await payFor(job)(client);
          if (job.failures > 0) return;
          const past = client.query.bind(client) as Queryable["query"];
          setImmediate(() => void past("select 1 / 0").catch(() => undefined));
        }),
      { attempts: 2 },
    );
    expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 2, failures: 1 });
    const [first] = await app.get(JobInspector).attempts(id);
    expect(first!.error).toMatchObject({ code: "TRANSACTION_FAILED" });
    expect(await payments()).toEqual([id]);
  });

  it("survives that a kept connection was ended meanwhile", async () => {
    const kind = defineJob("again", { attempts: 1 });
    const app = await bench.worker([
      handler(kind, async (_, job) => await job.transaction(payFor(job))),
    ]);
    const jobs = app.get(JobQueue);
    const one = await jobs.enqueue(kind, {});
    await reached(bench, one.id, "succeeded");
    await bench.sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pg-jobs transaction' and datname = current_database()",
    );
    const two = await jobs.enqueue(kind, {});
    await reached(bench, two.id, "succeeded");
    expect(await payments()).toEqual([one.id, two.id]);
  });
});

describe("job.transaction(source, fn), the source", () => {
  @Injectable()
  class Nothing {}

  it.each<[string, () => unknown, RegExp]>([
    ["nothing", () => undefined, /found something without transaction\(\)/],
    ["a provider", () => new Nothing(), /found something without transaction\(\)/],
    [
      "a DataSource of another kind",
      () => ({ options: { type: "mysql" }, transaction: () => {} }),
      /a DataSource of type 'mysql'/,
    ],
    [
      "what gives no query()",
      () => ({ transaction: async (run: (m: unknown) => unknown) => await run({}) }),
      /query\(sql, params\)/,
    ],
    [
      "what calls nobody",
      () => ({ transaction: async () => undefined }),
      /to call run and to wait for it/,
    ],
  ])("is refused when it is %s", async (_what, source, message) => {
    const { id } = await start(
      async (job) => await job.transaction(source() as DataSource, async () => undefined),
    );
    expect((await reached(bench, id, "dead")).last_error).toMatch(message);
  });

  it("is refused when it is a manager inside a transaction: its commit would come later", async () => {
    const { id } = await start(
      async (job) =>
        await dataSource.transaction(async (em) => await job.transaction(em, payFor(job))),
    );
    expect((await reached(bench, id, "dead")).last_error).toMatch(/whose commit would come later/);
    expect(await payments()).toEqual([]);
  });

  it.each([
    ["that has no jobs", false],
    ["that has jobs of its own", true],
  ])("is refused when it leads to another database %s", async (_what, migrated) => {
    const name = `elsewhere_${process.pid}_${Number(migrated)}`;
    await bench.sql(`create database ${name}`);
    const url = new URL(databaseUrl());
    url.pathname = `/${name}`;
    const other = await new DataSource({ type: "postgres", url: url.href }).initialize();
    try {
      if (migrated) {
        await other.query(`create schema ${bench.schema}`);
        await other.query(
          `create table ${bench.schema}.worker (id integer, host text, pid integer)`,
        );
        await other.query(
          `create table ${bench.schema}.job (queue_id integer, id bigint, attempt integer, worker integer)`,
        );
        await other.query(`insert into ${bench.schema}.worker values (1, 'there', 1)`);
      }
      let ran = false;
      const { id } = await start(
        async (job) => await job.transaction(other, async () => void (ran = true)),
      );
      const { last_error } = await reached(bench, id, "dead");
      expect(last_error).toMatch(/expected a source for the database that has the jobs; found/);
      expect(last_error).toMatch(migrated ? new RegExp(`"${name}"`) : /without their tables/);
      expect(ran).toBe(false);
    } finally {
      await other.destroy();
      await bench.sql(`drop database ${name} with (force)`);
    }
  });

  it("is refused when it is in no transaction, before anything is done", async () => {
    const client = new pg.Client({ connectionString: bench.url });
    await client.connect();
    let ran = false;
    try {
      const none = { transaction: <T>(run: (tx: pg.Client) => Promise<T>) => run(client) };
      const { id } = await start(
        async (job) => await job.transaction(none, async () => void (ran = true)),
      );
      expect((await reached(bench, id, "dead")).last_error).toMatch(
        /Invalid job.transaction\(source, fn\):\s+- tx: .* a connection outside a transaction/,
      );
      expect(ran).toBe(false);
    } finally {
      await client.end();
    }
  });

  it("that does not say whether it is in a transaction: what fn has committed is found out all the same", async () => {
    const client = new pg.Client({ connectionString: bench.url });
    await client.connect();
    const silent = {
      transaction: async <T>(run: (tx: Queryable) => Promise<T>) => {
        await client.query("begin");
        try {
          const value = await run({ query: (sql, values) => client.query(sql, values) });
          await client.query("commit");
          return value;
        } catch (error) {
          await client.query("rollback");
          throw error;
        }
      },
    };
    try {
      const { id } = await start(
        async (job) =>
          await job.transaction(silent, async (tx) => {
            await payFor(job)(tx);
            if (job.failures === 0) await tx.query("commit");
          }),
        { attempts: 2 },
      );
      expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 2, failures: 1 });
      expect(await payments()).toEqual([id, id]);
    } finally {
      await client.end();
    }
  });

  it("that has a connection free only after the timeout: nothing of the work is done", async () => {
    const narrow = await new DataSource({
      type: "postgres",
      url: bench.url,
      poolSize: 1,
    }).initialize();
    const holder = narrow.createQueryRunner();
    await holder.connect();
    let ran = false;
    let error: unknown;
    try {
      const { id } = await start(
        async (job) => {
          job.signal.addEventListener("abort", () => void holder.release());
          await job
            .transaction(narrow, async () => void (ran = true))
            .catch((reason: unknown) => (error = reason));
          job.signal.throwIfAborted();
        },
        { timeout: "300ms" },
      );
      expect((await reached(bench, id, "dead")).last_error).toMatch(/within 300 ms/);
      expect(error).toMatchObject({ code: "TIMEOUT" });
      expect(ran).toBe(false);
    } finally {
      await holder.release();
      await narrow.destroy();
    }
  });

  describe.each(["REPEATABLE READ", "SERIALIZABLE"] as const)("in %s", (level) => {
    const theirs = {
      transaction: async <T>(run: (tx: EntityManager) => Promise<T>) =>
        await dataSource.transaction(level, run),
    };
    const leaseEnds = async (id: string) => {
      const [found] = await bench.sql<{ at: number }>(
        "select extract(epoch from lease_until)::float8 as at from jobs.job where queue_id || '-' || id = $1",
        [id],
      );
      return found!.at;
    };

    it("commits though it lasts longer than the lease, and nobody takes the job over meanwhile", async () => {
      let others = 0;
      const { id, app, names } = await start(
        async (job) => {
          const first = await leaseEnds(job.id);
          // One renewal, so that leases are being renewed.
          await until(async () => (await leaseEnds(job.id)) > first, { what: "it is renewed" });
          await job.transaction(theirs, async (tx) => {
            await payFor(job)(tx);
            const same = defineJob(job.kind, { attempts: 1, timeout: "1m", backoff: fixed });
            await bench.worker([handler(same, () => void others++)], { lease: "3s" });
            await until(async () => (await leaseEnds(job.id)) < Date.now() / 1_000 - 1, {
              what: "the lease is over",
            });
            job.progress(90);
          });
        },
        { worker: { lease: "3s" } },
      );
      expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 1, failures: 0 });
      expect(await payments()).toEqual([id]);
      expect(others).toBe(0);
      expect(await app.get(JobInspector).progress(id)).toMatchObject({ percent: 90 });
      await until(() => names().length > 0, { what: "it is told" });
      expect(names()).toEqual(["succeeded"]);
    });

    it("that fails: the job is retried", async () => {
      const { id } = await start(
        async (job) =>
          await job.transaction(theirs, async (tx) => {
            await payFor(job)(tx);
            if (job.failures === 0) throw new Error("no");
          }),
        { attempts: 2 },
      );
      expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 2, failures: 1 });
      expect(await payments()).toEqual([id]);
    });

    it("does not begin its work when the job is in other hands", async () => {
      let ran = false;
      const { id, names } = await start(async (job) => {
        const [queue, number] = job.id.split("-");
        await bench.sql(
          "update jobs.job set attempt = attempt + 1, lease_until = now() + interval '1 minute' where queue_id = $1 and id = $2",
          [queue, number],
        );
        await job.transaction(theirs, async () => void (ran = true));
      });
      await until(() => names().length > 0, { what: "it is told" });
      expect(names()).toEqual(["lost"]);
      expect(ran).toBe(false);
      expect(await bench.state(id)).toBe("running");
    });
  });

  it("has committed, whatever a subscriber throws afterwards", async () => {
    const own = await new DataSource({ type: "postgres", url: bench.url }).initialize();
    try {
      own.subscribers.push({
        afterTransactionCommit: () => {
          throw new Error("a subscriber");
        },
      });
      const { id, told, names } = await start(
        async (job) => await job.transaction(own, payFor(job)),
      );
      await reached(bench, id, "succeeded");
      await until(() => told.length === 2, { what: "both events" });
      expect(names()).toEqual(["succeeded", "threw-late"]);
      expect(await payments()).toEqual([id]);
    } finally {
      await own.destroy();
    }
  });

  describe("that resolves though PostgreSQL has rolled back", () => {
    const failing = async (tx: Queryable) => void (await tx.query("select 1 / 0").catch(() => {}));
    /** Ends each transaction of `dataSource` in its own way, once `run` has ended. */
    const ending = (end: (tx: EntityManager) => Promise<void>) => ({
      transaction: async <T>(run: (tx: EntityManager) => Promise<T>) =>
        await dataSource.transaction(async (tx) => {
          const value = await run(tx);
          await end(tx);
          return value;
        }),
    });
    const sources: [string, () => { transaction: DataSource["transaction"] }][] = [
      ["for a statement of its own", () => ending(failing) as never],
      ["by itself", () => ending(async (tx) => void (await tx.query("rollback"))) as never],
    ];

    const expectFailed = async ({ id, app, told }: Awaited<ReturnType<typeof start>>) => {
      expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 2, failures: 1 });
      const [first] = await app.get(JobInspector).attempts(id);
      expect(first!.error).toMatchObject({
        name: "TransactionFailedError",
        code: "TRANSACTION_FAILED",
        message: expect.stringMatching(/to commit, found it rolled back/) as string,
      });
      expect(await payments()).toEqual([id]);
      await until(() => told.length === 2, { what: "both events" });
      expect(told.map(({ event }) => event)).toEqual(["retried", "succeeded"]);
    };

    it.each(sources)("%s: the run has failed", async (_what, source) => {
      const answers: unknown[] = [];
      const started = await start(
        async (job) => {
          const how = job.failures === 0 ? source() : dataSource;
          const paid = job.transaction(how as DataSource, async (tx) => {
            await payFor(job)(tx);
            return "paid";
          });
          answers.push(await paid.catch((error: unknown) => (error as { code?: string }).code));
          await paid;
        },
        { attempts: 2 },
      );
      await expectFailed(started);
      expect(answers).toEqual(["TRANSACTION_FAILED", "paid"]);
    });

    it("for a subscriber's statement: the run has failed", async () => {
      const own = await new DataSource({ type: "postgres", url: bench.url }).initialize();
      let times = 0;
      own.subscribers.push({
        beforeTransactionCommit: async ({ queryRunner }) => {
          if (times++ === 0) await failing(queryRunner);
        },
      });
      try {
        await expectFailed(
          await start(async (job) => await job.transaction(own, payFor(job)), { attempts: 2 }),
        );
        expect(times).toBeGreaterThanOrEqual(2);
      } finally {
        await own.destroy();
      }
    });

    it("is waited for while it is open", async () => {
      const order: string[] = [];
      let committed: Promise<void> | undefined;
      const early = {
        transaction: async <T>(run: (tx: EntityManager) => Promise<T>) => {
          const runner = dataSource.createQueryRunner();
          await runner.startTransaction();
          const value = await run(runner.manager);
          committed = sleep(300).then(async () => {
            order.push("committed");
            await runner.commitTransaction();
            await runner.release();
          });
          return value;
        },
      };
      const { id } = await start(async (job) => {
        await job.transaction(early, payFor(job));
        order.push("resolved");
      });
      await reached(bench, id, "succeeded");
      await committed;
      await until(() => order.length === 2, { what: "it has resolved" });
      expect(order).toEqual(["committed", "resolved"]);
    });
  });

  it("refuses at the commit what a deferred constraint does not allow: an ordinary failure", async () => {
    await bench.sql("create table jobs.once (n integer unique deferrable initially deferred)");
    await bench.sql("insert into jobs.once values (1)");
    const { id, names } = await start(
      async (job) =>
        await job.transaction(dataSource, async (em) => {
          await payFor(job)(em);
          await em.query(`insert into ${bench.schema}.once values (1)`);
        }),
    );
    expect((await reached(bench, id, "dead")).last_error).toMatch(/duplicate key/);
    await until(() => names().length > 0, { what: "it is told" });
    expect(names()).toEqual(["died"]);
    expect(await payments()).toEqual([]);
  });
});

describe("a commit that gets no answer", () => {
  it.each(ways.map(([way], own) => [way, own === 0] as const))(
    "%s: is looked up; what has committed is not run again, what has not is",
    async (_way, ours) => {
      const { proxy, url } = await bench.line();
      const far = await new DataSource({
        type: "postgres",
        url: ours ? bench.url : url,
        extra: {},
      }).initialize();
      const bodies: number[] = [];
      try {
        for (const arrives of [true, false]) {
          await bench.sql("truncate jobs.payment");
          const kind = defineJob(`cut.${ours}.${arrives}`, { attempts: 2, backoff: fixed });
          const app = await bench.worker(
            [
              handler(kind, async (_, job) => {
                bodies.push(job.attempt);
                const pay = async (tx: Parameters<Pay>[0]) => {
                  await payFor(job)(tx);
                  if (job.attempt === 1) {
                    if (arrives) proxy.muteFrom(ours ? "commit" : "COMMIT");
                    else proxy.deafFrom(ours ? "commit" : "COMMIT");
                  }
                };
                await (ours ? job.transaction(pay) : job.transaction(far, pay));
              }),
            ],
            {},
            { connection: { url: ours ? url : bench.url } },
          );
          const { id } = await app.get(JobQueue).enqueue(kind, {});
          await until(() => proxy.held > 0, { what: "the commit, or its answer, is on the line" });
          proxy.resetAll();
          proxy.setMode("pass");
          const { attempt } = await reached(bench, id, "succeeded");
          expect(attempt).toBe(arrives ? 1 : 2);
          expect(await payments()).toEqual([id]);
          await app.close();
          expect(await row(bench, id)).toMatchObject({ state: "succeeded", attempt });
        }
        expect(bodies).toEqual([1, 1, 2]);
      } finally {
        await far.destroy();
      }
    },
  );
});
