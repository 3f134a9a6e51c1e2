import {
  DatabaseUnavailableError,
  EnqueueOutcomeUnknownError,
  type Enqueued,
  type JobQueue,
} from "nestjs-pg-jobs";
import { Bench, behindPooler } from "../support/harness.js";
import type { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

// The connection breaks while an enqueue commits: what the caller is told has to be true.

let bench: Bench;
let proxy: TcpProxy;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
});
afterAll(async () => await bench.close());
beforeEach(async () => {
  await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.dedup");
  const line = await bench.line();
  proxy = line.proxy;
  jobs = await bench.producer({ connection: { url: line.url }, notify: false });
  // Lanes and a block of ids are known from now on: the next statement is the insert itself.
  for (const queue of ["default", "a", "b"]) await jobs.enqueue("work", {}, { queue });
  await bench.sql("truncate jobs.job");
});

const rows = async () =>
  await bench.sql<{ id: string; state: string }>(
    "select id, state, key from jobs.job_status order by number",
  );
const landed = async (count = 1) =>
  await until(async () => (await rows()).length >= count, { what: "the commit" });

const unknown = (error: unknown): EnqueueOutcomeUnknownError => {
  expect(error).toBeInstanceOf(EnqueueOutcomeUnknownError);
  return error as EnqueueOutcomeUnknownError;
};

/** What a worker would have made of the jobs that are there. */
async function finish(table: "done" | "dead"): Promise<void> {
  const [column, value] = table === "done" ? ["state", "1"] : ["crashes, reason", "0, 'buried'"];
  await bench.sql(
    `with mine as (delete from jobs.job returning *)
     insert into jobs.${table} (id, created_at, run_at, attempt, queue_id, failures, lane, generation, kind, key, payload, ${column})
     select id, created_at, run_at, 1, queue_id, 0, lane, 1, kind, key, payload, ${value} from mine`,
  );
}

const EACH = [
  undefined,
  { key: "k" },
  { key: "k", window: "1h" },
  { key: "k", onConflict: "replace" } as const,
];
/** Behind a pooler each takes five seconds: until nobody can execute any more what the lost line had sent. */
const WAYS = behindPooler ? EACH.slice(1, 3) : EACH;

/** The insert goes by its name, or behind a pooler, where nothing is prepared, by its text. */
const INSERT = ["enqueue", "-> queued"];
/** Not what begins as read committed. */
const COMMIT = ["commit\0"];

/** The answer of `call` is held up until its rows are there and `meanwhile` is done; then the line is cut. */
async function loseTheAnswer<T>(
  call: () => Promise<T>,
  meanwhile: () => Promise<unknown> = async () => undefined,
  to = INSERT,
): Promise<T> {
  proxy.muteFrom(...to);
  const answer = call();
  answer.catch(() => undefined);
  await until(() => proxy.held > 0, { what: "the answer is on the line" });
  await meanwhile();
  proxy.resetAll();
  proxy.setMode("pass");
  return await answer;
}

describe("an enqueue whose commit got no answer", () => {
  it.each([
    ["without a key", undefined],
    ["with a key", { key: "k" }],
    ["with a window", { key: "k", window: "1h" }],
    ["with what replaces", { key: "k", onConflict: "replace" } as const],
  ])("resolves with the one job that was committed, %s", async (_, options) => {
    const { id, deduplicated } = await loseTheAnswer(() => jobs.enqueue("work", { n: 1 }, options));
    expect(await rows()).toEqual([expect.objectContaining({ id, state: "queued" })]);
    expect(deduplicated).toBe(false);
  });

  it("repeats what never arrived", async () => {
    proxy.setMode("deaf");
    const answer = jobs.enqueue("work", {});
    answer.catch(() => undefined);
    await until(() => proxy.held > 0, { what: "the statement is on the line" });
    expect(await rows()).toEqual([]);
    proxy.resetAll();
    proxy.setMode("pass");
    const { id } = await answer;
    expect(await rows()).toEqual([expect.objectContaining({ id })]);
  });

  it.each(["done", "dead"] as const)(
    "does not create a job again that has been run meanwhile and is %s",
    async (table) => {
      for (const options of WAYS) {
        await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.dedup");
        const finished = async () => await finish(table);
        const { id } = await loseTheAnswer(() => jobs.enqueue("work", {}, options), finished);
        const state = table === "done" ? "succeeded" : "dead";
        expect(await rows()).toEqual([expect.objectContaining({ id, state })]);
      }
    },
  );

  it("knows by its window a job that has been run meanwhile and left no trace", async () => {
    const options = { key: "k", window: "1h" };
    const meanwhile = async () => await bench.sql("delete from jobs.job");
    const sent = await loseTheAnswer(() => jobs.enqueue("work", {}, options), meanwhile);
    expect(sent.deduplicated).toBe(false);
    expect(await rows()).toEqual([]);
    expect(await jobs.enqueue("work", {}, options)).toEqual({ id: sent.id, deduplicated: true });
  });

  it("tells of a window and of a replacement as before, and creates nothing", async () => {
    const options = { key: "k", window: "1h", onConflict: "replace" } as const;
    const first = await jobs.enqueue("work", { n: 1 }, options);
    const again = await loseTheAnswer(() => jobs.enqueue("work", { n: 2 }, options));
    expect(again).toEqual({ id: first.id, deduplicated: true, replaced: true });
    expect((await jobs.get(first.id))!.payload).toEqual({ n: 2 });
    const finished = async () => await finish("done");
    const late = await loseTheAnswer(() => jobs.enqueue("work", { n: 3 }, options), finished);
    expect(late).toEqual({ id: first.id, deduplicated: true, replaced: false });
    expect(await rows()).toHaveLength(1);
  });

  it("keeps a list with windows whole, over several queues and statements", async () => {
    const items = Array.from({ length: 2_500 }, (_, n) => ({
      payload: { n },
      queue: n % 2 ? "a" : "b",
      ...(n % 10 === 0 ? { key: `k${n}`, window: "1h" } : {}),
    }));
    const answers = await loseTheAnswer(
      () => jobs.enqueueMany("work", items),
      async () => await finish("done"),
      COMMIT,
    );
    expect(new Set(answers.map(({ id }) => id))).toEqual(
      new Set((await rows()).map(({ id }) => id)),
    );
    expect(answers.every(({ deduplicated }) => !deduplicated)).toBe(true);
    expect(await rows()).toHaveLength(2_500);
  });

  it("tells of a duplicate as before", async () => {
    const { id } = await jobs.enqueue("work", {}, { key: "k" });
    const again = await loseTheAnswer(async () => await jobs.enqueue("work", {}, { key: "k" }));
    expect(again).toEqual({ id, deduplicated: true });
    expect(await rows()).toHaveLength(1);
  });

  it("keeps a list of several queues and statements whole", async () => {
    const items = Array.from({ length: 2_500 }, (_, n) => ({
      payload: { n },
      queue: n % 2 ? "a" : "b",
      ...(n % 10 === 0 ? { key: `k${n % 50}` } : {}),
    }));
    const answers = await loseTheAnswer(
      () => jobs.enqueueMany("work", items),
      async () => undefined,
      COMMIT,
    );
    const there = new Set((await rows()).map(({ id }) => id));
    expect(there.size).toBe(2_250 + 5);
    expect(new Set(answers.map(({ id }) => id))).toEqual(there);
    expect(answers.filter(({ deduplicated }) => deduplicated)).toHaveLength(245);
  });

  it("keeps a list of great size whole, whose statements share a commit", async () => {
    const payload = "x".repeat(1_000_000);
    const answers = await loseTheAnswer(
      () =>
        jobs.enqueueMany(
          "work",
          Array.from({ length: 40 }, () => payload),
        ),
      async () => await finish("done"),
      COMMIT,
    );
    const there = (await rows()).map(({ id, state }) => [id, state]);
    expect(there).toEqual(answers.map(({ id }) => [id, "succeeded"]));
  });

  it("does not create a job again when its first sending arrives late", async () => {
    proxy.setMode("deaf");
    const answer = jobs.enqueue("work", {});
    await until(() => proxy.held > 0, { what: "the statement is on the line" });
    const late = proxy.orphanAll();
    proxy.setMode("pass");
    const { id } = await answer;
    await finish("done");
    late.deliver();
    await until(() => proxy.connections === 1, { what: "the server has read the line to its end" });
    expect(await rows()).toEqual([expect.objectContaining({ id, state: "succeeded" })]);
  });

  it("answers each of many callers, whatever happens to the line", async () => {
    const acknowledged: Enqueued[] = [];
    const refused: unknown[] = [];
    let stop = false;
    const callers = Array.from({ length: 20 }, async (_, caller) => {
      for (let n = 0; !stop; n++) {
        const options = caller % 2 ? { key: `${caller}-${n}` } : {};
        await jobs.enqueue("work", { caller, n }, options).then(
          (one) => acknowledged.push(one),
          (error: unknown) => refused.push(error),
        );
      }
    });
    // Behind a pooler it takes 5 s each time until what was lost cannot be executed any more.
    for (let round = 0; round < (behindPooler ? 2 : 12); round++) {
      const before = acknowledged.length;
      await until(() => acknowledged.length >= before + 50, { what: "calls go through" });
      proxy.setMode(round % 2 ? "mute" : "deaf");
      await until(() => proxy.held > 0, { what: "something is on the line" });
      proxy.resetAll();
      proxy.setMode("pass");
    }
    stop = true;
    await Promise.all(callers);
    const there = (await rows()).map(({ id }) => id);
    expect(new Set(there).size).toBe(there.length);
    expect(new Set(there)).toEqual(new Set(acknowledged.map(({ id }) => id)));
    expect(acknowledged.every(({ deduplicated }) => !deduplicated)).toBe(true);
    // A connection that was lost between two statements, or while it was made, is a definite no.
    expect(refused.filter((error) => !(error instanceof DatabaseUnavailableError))).toEqual([]);
  });
});

describe("when the database stays away", () => {
  it("an unknown outcome is said to be unknown, with ids that tell", async () => {
    // Two lines at once, for it takes the queue ten seconds to give up.
    const { proxy: far, url } = await bench.line();
    const others = await bench.producer({ connection: { url }, notify: false });
    await others.enqueue("work", {});
    await bench.sql("truncate jobs.job");

    proxy.setMode("mute");
    const committed = jobs.enqueueMany("work", [{}, {}]).then(() => unknown(0), unknown);
    await landed(2);
    far.setMode("deaf");
    const lost = others.enqueue("work", {}).then(() => unknown(0), unknown);
    await until(() => far.held > 0, { what: "the statement is on the line" });
    for (const line of [proxy, far]) line.setMode("reset");
    const errors = [await committed, await lost];
    for (const line of [proxy, far]) line.setMode("pass");

    const found = await Promise.all(
      errors.map(async ({ ids }) => await Promise.all(ids.map(async (id) => await jobs.get(id)))),
    );
    expect(found.map((all) => all.length)).toEqual([2, 1]);
    expect(
      found
        .flat()
        .filter(Boolean)
        .map((job) => job!.id),
    ).toEqual((await rows()).map(({ id }) => id));
    expect(found[1]).toEqual([null]);
  });

  it("tells an id for each item of a list, that of the first where keys are equal", async () => {
    const items = [
      { payload: {}, key: "b", window: "1h" },
      { payload: {}, key: "b", window: "1h" },
      { payload: {}, key: "a", window: "1h" },
    ];
    proxy.setMode("mute");
    const sent = jobs.enqueueMany("work", items).then(() => unknown(0), unknown);
    await landed(2);
    proxy.setMode("reset");
    const { ids } = await sent;
    proxy.setMode("pass");
    const keys = await Promise.all(ids.map(async (id) => (await jobs.get(id))!.key));
    expect(keys).toEqual(["b", "b", "a"]);
    // Repeating it creates nothing more.
    const again = await jobs.enqueueMany("work", items);
    expect(again.map(({ id }) => id)).toEqual(ids);
    expect(again.every(({ deduplicated }) => deduplicated)).toBe(true);
  });

  it("a call that could not be sent is refused, and leaves no job", async () => {
    proxy.setMode("reset");
    await until(() => proxy.connections === 0, { what: "the line is cut" });
    await until(
      async () =>
        await jobs.enqueue("work", {}).then(
          () => false,
          (error: unknown) => error instanceof DatabaseUnavailableError,
        ),
      { what: "the loss is noticed", timeout: 30_000 },
    );
    await expect(jobs.enqueue("work", {})).rejects.toMatchObject({ code: "DATABASE_UNAVAILABLE" });
    await expect(jobs.enqueue("work", {}, { key: "k" })).rejects.toThrow(DatabaseUnavailableError);
    proxy.setMode("pass");
    await jobs.enqueue("work", { last: true });
    expect(await rows()).toHaveLength(1);
  });
});
