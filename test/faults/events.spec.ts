import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";
import { Ledger, WorkerProcess } from "../support/worker-process.js";

describe("events, of three processes of two services", () => {
  let bench: Bench;
  let ledger: Ledger;
  let workers: WorkerProcess[] = [];
  beforeEach(async () => {
    bench = await Bench.open();
    ledger = new Ledger();
  });
  afterEach(async () => {
    await Promise.all(workers.map((one) => one.end()));
    workers = [];
    ledger.remove();
    await bench.close();
  });

  it("each is delivered to each subscriber, though one process is killed and one frozen", async () => {
    const options = { url: bench.url, schema: bench.schema, ledger };
    const shop = { ...options, service: "shop", subscribers: ["bill", "mail"] };
    const depot = {
      ...options,
      service: "depot",
      subscribers: ["ship"],
      queues: { default: { concurrency: 5 } },
    };
    workers = [WorkerProcess.start(shop), WorkerProcess.start(shop), WorkerProcess.start(depot)];
    await Promise.all(workers.map((one) => one.ready()));
    const jobs = await bench.producer();
    const client = await bench.client();
    const published = 150;
    for (let n = 0; n < published; n++) {
      // Every third is taken back.
      await client.query("begin");
      const made = await jobs.in(client).publish("happened", { n, ms: 20 });
      expect(made.map(({ subscriber }) => subscriber)).toEqual(["bill", "mail", "ship"]);
      await client.query(n % 3 === 2 ? "rollback" : "commit");
      if (n === 50) workers[0]!.kill();
      if (n === 60) workers[2]!.stop();
      if (n === 140) workers[2]!.cont();
    }
    const kept = published - Math.floor(published / 3);
    await until(async () => ((await bench.states()).succeeded ?? 0) === 3 * kept, {
      what: "all are delivered",
      timeout: 40_000,
    });
    expect(await bench.states()).toEqual({ succeeded: 3 * kept });
    const got = await bench.sql<{ kind: string; count: number; distinct: number }>(
      `select kind, count(*)::integer as count, count(distinct payload ->> 'n')::integer as distinct
       from jobs.done group by kind order by kind`,
    );
    expect(got).toEqual(
      ["bill", "mail", "ship"].map((kind) => ({ kind, count: kept, distinct: kept })),
    );
  });
});
