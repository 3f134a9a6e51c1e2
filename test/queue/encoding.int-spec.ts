import { jest } from "@jest/globals";
import { Logger } from "@nestjs/common";
import {
  JobInspector,
  JobQueue,
  NotInEncodingError,
  bury,
  fixed,
  skip,
  snooze,
} from "nestjs-pg-jobs";
import pg from "pg";
import { DataSource } from "typeorm";
import { Bench, databaseUrl, otherDatabase } from "../support/harness.js";
import { Gate, handler, reached, row } from "../support/handlers.js";
import { until } from "../support/until.js";

// A database whose encoding is not UTF8 does all that fits into it, and says what does not.

const database = `latin_${process.pid}`;
let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  await asAdmin(`create database ${database} encoding 'LATIN1' locale 'C' template template0`);
  bench = await Bench.open(otherDatabase(database));
  jobs = await bench.producer();
});
afterAll(async () => {
  await bench.close();
  await asAdmin(`drop database ${database} with (force)`);
});

async function asAdmin(text: string): Promise<void> {
  const client = new pg.Client(databaseUrl());
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

const refused = async (call: Promise<unknown>): Promise<NotInEncodingError> => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(NotInEncodingError);
  return error as NotInEncodingError;
};

const kinds = async () =>
  (await bench.sql<{ kind: string }>("select distinct kind from jobs.job_status")).map(
    ({ kind }) => kind,
  );

it("a worker does there what it does elsewhere", async () => {
  const gate = new Gate();
  const app = await bench.worker(
    [
      handler("größe", (payload, job) => {
        const { name } = payload as { name: string };
        job.log(`für ${name}`);
        job.log("fertig 😀");
        job.progress(50, "halb… 😀");
        return { name };
      }),
      handler(
        "fails",
        () => {
          throw new Error("schlägt fehl 😀 „so“");
        },
        { attempts: 2, backoff: fixed("50ms") },
      ),
      handler("emoji", () => "😀"),
      handler("skips", () => skip("nichts zu tun 😀")),
      handler("buries", () => bury("nie 😀")),
      handler("snoozes", (_, job) => (job.attempt === 1 ? snooze("50ms") : "ok")),
      handler("writes", (_, job) =>
        job.transaction(async (client) => {
          await client.query("select 1");
          await job.enqueue("later", { text: "ü" }, { delay: "1h", key: "ü", window: "1h" });
          return "ü";
        }),
      ),
      handler("runs", async () => await gate.opened),
    ],
    { queues: { default: { history: "full", concurrency: 8 } } },
  );
  const queue = app.get(JobQueue);
  const inspector = app.get(JobInspector);

  const done = await queue.enqueue("größe", { name: "Ü" }, { key: "schlüssel", window: "1h" });
  expect(await reached(bench, done.id, "succeeded")).toMatchObject({ result: { name: "Ü" } });
  const again = await queue.enqueue("größe", { name: "Ü" }, { key: "schlüssel", window: "1h" });
  expect(again).toEqual({ id: done.id, deduplicated: true });
  // What is for people is kept, with question marks for what has no place.
  const texts = (await inspector.logs(done.id)).items.map(({ text }) => text);
  expect(texts).toEqual(["für Ü", "fertig ?"]);
  expect(await inspector.progress(done.id)).toMatchObject({ percent: 50, note: "halb? ?" });
  const told = (await inspector.history(done.id)).map(({ event }) => event);
  expect(told).toEqual(["enqueued", "started", "succeeded"]);

  const dead = await queue.enqueue("fails", {});
  expect(await reached(bench, dead.id, "dead", { attempt: 2 })).toMatchObject({
    last_error: "schlägt fehl ? ?so?",
  });
  expect(await inspector.attempts(dead.id)).toHaveLength(2);
  expect(await queue.requeue(dead.id, { payload: { text: "ö" } })).toBe("queued");
  await reached(bench, dead.id, "dead", { attempt: 4 });

  // A result is not changed: it is left out, and that is said.
  const { id: emoji } = await queue.enqueue("emoji", {});
  await reached(bench, emoji, "succeeded");
  const without = { result: null, resultProblem: expect.stringContaining("LATIN1 lacks") };
  expect(await inspector.get(emoji)).toMatchObject(without);
  const skipped = await queue.enqueue("skips", {});
  expect(await reached(bench, skipped.id, "skipped")).toMatchObject({
    result: { reason: "nichts zu tun ?" },
  });
  const buried = await queue.enqueue("buries", {});
  expect(await reached(bench, buried.id, "dead")).toMatchObject({ last_error: "nie ?" });
  await reached(bench, (await queue.enqueue("snoozes", {})).id, "succeeded", { attempt: 2 });
  const wrote = await queue.enqueue("writes", {});
  expect(await reached(bench, wrote.id, "succeeded")).toMatchObject({ result: "ü" });
  expect((await inspector.list({ kind: "later", key: "ü" })).items).toHaveLength(1);

  const running = await queue.enqueue("runs", {});
  await reached(bench, running.id, "running");
  expect(await queue.cancel(running.id)).toBe("requested");
  const waiting = await queue.enqueue("größe", {}, { delay: "1h" });
  expect(await queue.cancel(waiting.id)).toBe("cancelled");
  gate.open();
  await reached(bench, running.id, "succeeded");
  expect((await inspector.counts()).length).toBeGreaterThan(0);
  await until(async () => (await inspector.workers()).length > 0, { what: "it is seen" });

  const client = await bench.client();
  await client.query("begin");
  const inside = await queue.in(client).enqueue("größe", { name: "ß" }, { key: "in" });
  await client.query("commit");
  client.release();
  await reached(bench, inside.id, "succeeded");
  const [bySql] = await bench.sql<{ id: string }>(
    `select * from jobs.enqueue('größe', '{"name": "é"}', key => 'é', key_window => '1 hour')`,
  );
  expect(await reached(bench, bySql!.id, "succeeded")).toMatchObject({ result: { name: "é" } });
});

describe("what the encoding lacks", () => {
  it("in the result of job.transaction() costs nothing but that result, as elsewhere", async () => {
    const dataSource = await new DataSource({ type: "postgres", url: bench.url }).initialize();
    const warn = jest.spyOn(Logger.prototype, "warn");
    try {
      await bench.sql("create table jobs.paid (job text not null)");
      const write = async (tx: { query(sql: string, values: unknown[]): unknown }, job: string) => {
        await tx.query(`insert into ${bench.schema}.paid values ($1)`, [job]);
        return { emoji: "😀" };
      };
      const app = await bench.worker([
        handler("ours", (_, job) => job.transaction((client) => write(client, job.id))),
        handler("theirs", (_, job) => job.transaction(dataSource, (em) => write(em, job.id))),
        handler("plain", () => ({ emoji: "😀" })),
      ]);
      for (const kind of ["ours", "theirs", "plain"]) {
        const { id } = await app.get(JobQueue).enqueue(kind, {}, { attempts: 1 });
        expect(await reached(bench, id, "succeeded")).toMatchObject({ attempt: 1 });
        await expect(app.get(JobQueue).result(id)).rejects.toThrow(/a character that LATIN1 lacks/);
        expect(await bench.sql("select 1 from jobs.paid where job = $1", [id])).toHaveLength(
          kind === "plain" ? 0 : 1,
        );
        expect(warn.mock.calls.filter(([, said]) => (said as { id?: string }).id === id)).toEqual([
          [expect.stringMatching(/^PostgreSQL refused to store it: .*"LATIN1"/), expect.anything()],
        ]);
      }
    } finally {
      warn.mockRestore();
      await dataSource.destroy();
    }
  });

  it.each<[string, string, Parameters<JobQueue["enqueue"]>]>([
    ["a payload", "U+1F600 in its payload", ["work", { a: "ü😀" }]],
    ["the name of a field", "U+20AC in its payload", ["work", { "€": 1 }]],
    ["a key", "U+1F600 in its key", ["work", {}, { key: "😀" }]],
    ["a key with a window", "U+1F600 in its key", ["work", {}, { key: "😀", window: "1h" }]],
    ["a kind", "U+1F600 in these names", ["k😀", {}]],
    ["a queue", "U+0141 in these names", ["work", {}, { queue: "Łódź" }]],
  ])("is refused in %s, by its name", async (_, found, call) => {
    const before = await kinds();
    const error = await refused(jobs.enqueue(...call));
    expect(error).toMatchObject({ code: "NOT_IN_ENCODING", encoding: "LATIN1" });
    expect(error.message).toContain(`kind "${call[0] as string}"`);
    expect(error.message).toContain(`which is LATIN1, found ${found}`);
    expect(error.message).toMatch(
      /No job was created\. .* use a database whose encoding is UTF8\.$/,
    );
    expect(await kinds()).toEqual(before);
  });

  it("costs its neighbours in a statement nothing", async () => {
    const calls = Array.from({ length: 20 }, (_, n) =>
      jobs.enqueue("neighbour", { n: n === 7 ? "😀" : n }),
    );
    const all = await Promise.allSettled(calls);
    const failed = all.flatMap(({ status }, n) => (status === "rejected" ? [n] : []));
    expect(failed).toEqual([7]);
    await refused(calls[7]!);
    const [rows] = await bench.sql(
      "select count(*)::int as n from jobs.job where kind = 'neighbour'",
    );
    expect(rows).toEqual({ n: 19 });
  });

  it("is found in a call of many, of which none is created", async () => {
    const many = ["a", { payload: 1, key: "k" }, { payload: "😀", key: "l", window: "1h" }];
    expect(await refused(jobs.enqueueMany("many", ["a", "b", "😀"]))).toMatchObject({ index: 2 });
    expect(
      await refused(jobs.enqueueMany("many", ["a", { payload: "€", queue: "b" }])),
    ).toMatchObject({ index: 1 });
    const client = await bench.client();
    await client.query("begin");
    expect(await refused(jobs.in(client).enqueueMany("many", many))).toMatchObject({ index: 2 });
    await client.query("rollback");
    client.release();
    expect(await kinds()).not.toContain("many");
  });

  it("is refused in a new payload of a dead letter, and in what is looked for", async () => {
    const { id } = await jobs.enqueue("to-cancel", {}, { delay: "1h" });
    await jobs.cancel(id);
    const error = await refused(jobs.requeue(id, { payload: "😀" }));
    expect(error.message).toContain("found U+1F600, which it lacks. The job was not requeued.");
    expect(await row(bench, id)).toMatchObject({ state: "cancelled" });
    const inspector = (await bench.app([bench.root()])).get(JobInspector);
    expect((await refused(inspector.list({ kind: "k😀" }))).message).toContain("U+1F600");
  });
});
