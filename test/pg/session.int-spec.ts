import { ConnectionLostError, Session } from "../../libs/jobs/src/pg/session.js";
import { Statement } from "../../libs/jobs/src/pg/statement.js";
import { Bench } from "../support/harness.js";

const pid = new Statement(null, () => "select pg_backend_pid()");
const demote = new Statement(null, () => "set default_transaction_read_only = on");
const write = new Statement(null, (jobs) => `update ${jobs}.chore set due_at = due_at`);

describe("Session", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  it.each(["alone", "in a transaction"])(
    "leaves a server that does not take writes any more, so that the next statement finds the new one (%s)",
    async (where) => {
      const session = bench.session();
      const [before] = await session.run(pid);
      await session.run(demote);
      const refused =
        where === "alone"
          ? session.run(write)
          : session.transaction(async (run) => void (await run(write)));
      const error = await refused.catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ConnectionLostError);
      // Nothing can have taken effect.
      expect(error).toMatchObject({ sent: false, cause: { code: "25006" } });
      await session.run(write);
      expect(await session.run(pid)).not.toEqual([before]);
    },
  );

  it("does not let statements wait in line, each for a connection timeout of its own", async () => {
    const { proxy, url } = await bench.line();
    proxy.setMode("blackhole");
    const config = { connectionString: url, connectionTimeoutMillis: 1_200 };
    const session = new Session({ config, schema: bench.schema, name: "pg-jobs test" });
    const from = performance.now();
    const all = await Promise.allSettled(Array.from({ length: 10 }, () => session.run(pid)));
    expect(performance.now() - from).toBeLessThan(3_000);
    for (const one of all) expect(one).toMatchObject({ reason: { sent: false } });
    proxy.setMode("pass");
    await session.run(pid);
    await session.close();
  });
});
