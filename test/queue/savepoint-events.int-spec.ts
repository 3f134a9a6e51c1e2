import { Events, type JobEvent, JobQueue } from "nestjs-pg-jobs";
import { DataSource, type EntityManager } from "typeorm";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

describe("events of a transaction in which a savepoint is rolled back", () => {
  let bench: Bench;
  let jobs: JobQueue;
  let dataSource: DataSource;
  const told: JobEvent[] = [];
  beforeAll(async () => {
    bench = await Bench.open();
    const app = await bench.app([bench.root()]);
    jobs = app.get(JobQueue);
    app.get(Events).on(["enqueued", "cancelled"], (event) => told.push(event));
    dataSource = await new DataSource({ type: "postgres", url: bench.url }).initialize();
  });
  beforeEach(() => void told.splice(0));
  afterAll(async () => {
    await dataSource.destroy();
    await bench.close();
  });

  const rolledBack = async (tx: EntityManager, work: (tx: EntityManager) => Promise<unknown>) =>
    await tx
      .transaction(async (nested) => {
        await work(nested);
        throw new Error("rolled back");
      })
      .catch(() => undefined);
  const names = () => told.map(({ event, id }) => `${event} ${id}`).sort();

  it("are those of what is there after the commit", async () => {
    const [first, second, third] = await jobs.enqueueMany("work", [{}, {}, {}], { delay: "1h" });
    told.splice(0);
    const kept: string[] = [];
    await dataSource.transaction(async (tx) => {
      kept.push((await jobs.in(tx).enqueue("before", {})).id);
      await jobs.in(tx).cancel(first!.id);
      await rolledBack(tx, async (nested) => {
        await jobs.in(nested).enqueue("inner", {});
        await jobs.in(nested).enqueueMany("inner", [{}, {}], { queue: "other" });
        await jobs.in(nested).cancel(second!.id);
      });
      kept.push((await jobs.in(tx).enqueue("after", {})).id);
      await jobs.in(tx).cancel(third!.id);
    });
    const expected = [
      ...kept.map((id) => `enqueued ${id}`),
      `cancelled ${first!.id}`,
      `cancelled ${third!.id}`,
    ].sort();
    await until(() => told.length >= expected.length, { what: "all is told" });
    // Another round trip of the same connection: whatever would be told too many has been told by now.
    await jobs.get(first!.id);
    expect(names()).toEqual(expected);
  });

  it("are none when the whole transaction is rolled back after it", async () => {
    await dataSource
      .transaction(async (tx) => {
        await jobs.in(tx).enqueue("before", {});
        await rolledBack(tx, async (nested) => await jobs.in(nested).enqueue("inner", {}));
        throw new Error("all of it");
      })
      .catch(() => undefined);
    const { id } = await jobs.enqueue("later", {});
    await jobs.get(id);
    expect(names()).toEqual([`enqueued ${id}`]);
  });
});
