import { jest } from "@jest/globals";
import type { JobQueue } from "nestjs-pg-jobs";
import pg from "pg";
import { Bench } from "../support/harness.js";

// Calls that come at once share statements; none pays for another, and none is told before its commit.

let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer({ notify: false });
  await jobs.enqueue("work", {});
  await bench.sql("alter table jobs.job add constraint poison check (payload <> '\"poison\"')");
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.job")));

/** How many statements our own sessions send meanwhile. */
async function statements(work: () => Promise<unknown>): Promise<number> {
  let sent = 0;
  const real = Reflect.get(pg.Client.prototype, "query") as (...args: unknown[]) => unknown;
  const spy = jest.spyOn(pg.Client.prototype, "query").mockImplementation(function (
    this: pg.Client,
    ...args: unknown[]
  ) {
    if (
      (this as unknown as { connectionParameters: { application_name?: string } })
        .connectionParameters.application_name === "pg-jobs front"
    )
      sent++;
    return real.apply(this, args);
  } as never);
  try {
    await work();
    return sent;
  } finally {
    spy.mockRestore();
  }
}

const many = (count: number, call: (n: number) => Promise<unknown>) => async () =>
  await Promise.all(Array.from({ length: count }, async (_, n) => await call(n)));

describe("concurrent calls", () => {
  it("go together, without waiting for company", async () => {
    expect(await statements(async () => await jobs.enqueue("work", {}))).toBe(1);
    expect(await statements(many(64, async (n) => await jobs.enqueue("work", n)))).toBeLessThan(4);
    const keyed = many(64, async (n) => await jobs.enqueue("work", n, { key: `${n}` }));
    expect(await statements(keyed)).toBeLessThan(8);
    expect(await bench.states()).toEqual({ queued: 129 });
  });

  it("are told after the commit: another connection sees the job at once", async () => {
    await many(50, async (n) => {
      const { id } = await jobs.enqueue("work", n, n % 2 ? { key: `${n}` } : {});
      expect(await bench.state(id)).toBe("queued");
    })();
  });

  it.each([{}, { key: "k" }])("pay nothing for a poisoned one (%p)", async (options) => {
    const calls = Array.from({ length: 50 }, async (_, n) => {
      const key = "key" in options ? { key: `${n}` } : {};
      return await jobs.enqueue("work", n === 17 ? "poison" : n, key);
    });
    const answers = await Promise.allSettled(calls);
    expect(answers.flatMap(({ status }, n) => (status === "rejected" ? [n] : []))).toEqual([17]);
    const rows = await bench.sql<{ payload: number }>("select payload from jobs.job");
    expect(rows.map(({ payload }) => payload).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 50 }, (_, n) => n).filter((n) => n !== 17),
    );
  });

  it("keep lists whole among them", async () => {
    const lists = Array.from({ length: 10 }, async (_, n) =>
      jobs.enqueueMany("work", [`${n}a`, n === 3 ? "poison" : "fine", `${n}b`]),
    );
    const answers = await Promise.allSettled([...lists, jobs.enqueue("work", "alone")]);
    expect(answers.filter(({ status }) => status === "rejected")).toHaveLength(1);
    expect(await bench.states()).toEqual({ queued: 28 });
    expect(await bench.sql(`select 1 from jobs.job where payload in ('"3a"', '"3b"')`)).toEqual([]);
  });

  it("of great size go in parts", async () => {
    const text = "x".repeat(900_000);
    const sent = await statements(many(12, async () => await jobs.enqueue("work", text)));
    expect(sent).toBeGreaterThan(1);
    expect(await bench.states()).toEqual({ queued: 12 });
  });

  it("in the order of the calls get ascending ids", async () => {
    const made = await many(200, async (n) => await jobs.enqueue("work", n))();
    const numbers = (made as { id: string }[]).map(({ id }) => Number(id.split("-")[1]));
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
  });
});
