import { Outage } from "../../libs/jobs/src/worker/outage.js";
import { Database } from "../../libs/jobs/src/pg/database.js";
import {
  ConnectionLostError,
  LoopBlockedError,
  Session,
  Word,
} from "../../libs/jobs/src/pg/session.js";
import { Statement } from "../../libs/jobs/src/pg/statement.js";
import { Bench, behindPooler } from "../support/harness.js";
import { until } from "../support/until.js";

const pid = new Statement(null, () => "select pg_backend_pid()");
const sleep = new Statement(null, () => "select pg_sleep(5)");
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

  it("works in read committed, whatever the role or the database has for its default", async () => {
    const level = new Statement(null, () => "show transaction_isolation");
    const change = async (how: string) =>
      await bench.sql(
        `do $$ begin execute format('alter database %I ${how}', current_database()); end $$`,
      );
    await change("set default_transaction_isolation = ''serializable''");
    // Past a pooler, which has connections from before.
    const database = new Database({ connectionString: bench.direct }, bench.schema, 3);
    try {
      for (const purpose of ["front", "claim", "settle"] as const)
        expect(await database.open(purpose).run(level)).toEqual([["read committed"]]);
    } finally {
      await database.close();
      await change("reset default_transaction_isolation");
    }
  });

  it("that is restarted ends a turn that never would, and goes on with a new connection", async () => {
    const session = bench.session();
    const [before] = await session.run(pid);
    const hangs = session.exclusive(() => new Promise(() => {}));
    const behind = session.run(pid);
    const why = new Error("it stood still");
    await until(() => session.connected, { what: "it is connected" });
    session.restart(why);
    await expect(hangs).rejects.toMatchObject({ sent: true, cause: why });
    expect(await behind).not.toEqual([before]);
    // One that nothing is wrong with connects anew, and nobody is refused.
    const [now] = await session.run(pid);
    session.restart(why);
    expect(await session.run(pid)).not.toEqual([now]);
  });

  it("tells of a turn that hangs, and of none that waits for an answer", async () => {
    const session = bench.session();
    expect(session.hangsFor).toBe(0);
    const hangs = session.exclusive(() => new Promise(() => {}));
    await until(() => session.connected && session.hangsFor > 300, { what: "it hangs" });
    expect(await session.answers(50)).toBe(false);
    session.restart(new Error("it stood still"));
    await expect(hangs).rejects.toMatchObject({ sent: true, backend: expect.anything() });
    const slow = session.run(sleep);
    await until(() => session.connected, { what: "it is connected" });
    expect(session.hangsFor).toBe(0);
    await slow;
    expect(await session.answers(5_000)).toBe(true);
    expect(session.hangsFor).toBe(0);
  });

  it("need not answer for the database to be there: that is asked over a connection of its own, within the cap", async () => {
    const { proxy, url } = await bench.line();
    const [roomy, full] = [3, 2].map(
      (cap) => new Database({ connectionString: url }, bench.schema, cap),
    );
    const [idle, shared] = [roomy!, full!].map((database) => database.open("front"));
    await idle!.connect();
    const hangs = [idle!, shared!].map((session) =>
      session.exclusive(() => new Promise(() => {})).catch(() => {}),
    );
    expect(await roomy!.answers(5_000, idle!)).toBe(true);
    expect(roomy!.use).toMatchObject({ sessions: 1, reserved: 0 });
    // None is left but the one to be lent.
    expect(await full!.answers(200, shared!)).toBe(false);
    await until(() => proxy.connections === 2, { what: "its connection is gone" });
    proxy.setMode("blackhole");
    expect(await roomy!.answers(200, idle!)).toBe(false);
    for (const session of [idle!, shared!]) session.restart(new Error("over"));
    await Promise.all([...hangs, roomy!.close(0), full!.close(0)]);
  });

  it("says that this process was busy, when it did not listen for so long itself", async () => {
    const config = { connectionString: bench.url };
    const options = { config, schema: bench.schema, name: "pg-jobs test", replyTimeout: 1_000 };
    const session = new Session(options);
    await until(async () => await session.run(pid), { what: "it is connected" });
    const answer = session.run(sleep).catch((thrown: unknown) => thrown);
    await new Promise((resolve) => setImmediate(resolve));
    const end = performance.now() + 2_500;
    while (performance.now() < end);
    const busy = await answer;
    expect(busy).toMatchObject({ sent: true, cause: expect.any(LoopBlockedError) });
    // The server's silence, with a loop that turns.
    const silence = async () =>
      await session.run(sleep).catch((thrown: unknown) => thrown as Error);
    // Unless the whole machine stands still meanwhile.
    const silent = await until(async () => {
      const error = await silence();
      return !((error as Error).cause instanceof LoopBlockedError) && error;
    });
    expect(silent).toMatchObject({ cause: { message: "no answer within 1000 ms" } });
    await session.close(0);
    const said: [string, string][] = [];
    for (const error of [busy, silent])
      new Outage((message, { cause }) => said.push([message, cause])).complain(
        "the database is away",
        error,
      );
    expect(said).toEqual([
      [
        "this process was too busy to hear the database",
        expect.stringMatching(/event loop of this process was blocked/),
      ],
      ["the database is away", "no answer within 1000 ms"],
    ]);
  });

  it("does not let statements wait in line, each for a connection timeout of its own", async () => {
    const { proxy, url } = await bench.line();
    proxy.setMode("blackhole");
    const config = { connectionString: url, connectionTimeoutMillis: 1_200 };
    const session = new Session({ config, schema: bench.schema, name: "pg-jobs test" });
    const from = performance.now();
    const all = await Promise.allSettled(Array.from({ length: 10 }, () => session.run(pid)));
    // One of them, and not ten.
    expect(performance.now() - from).toBeLessThan(9_000);
    for (const one of all) expect(one).toMatchObject({ reason: { sent: false } });
    proxy.setMode("pass");
    await session.run(pid);
    await session.close();
  });
});

// Behind a pooler it stays unsent.
(behindPooler ? describe.skip : describe)("a word behind a statement", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  it("tells when it has failed", async () => {
    const session = bench.session();
    const said: string[] = [];
    const word = new Word(new Statement(null, () => "select 1 / 0"), [], {
      onSent: () => said.push("sent"),
      onLost: () => said.push("lost"),
    });
    await session.with(word).run(pid);
    await until(() => said.length === 2);
    expect(said).toEqual(["sent", "lost"]);
    expect(word.sent).toBe(false);
    // It costs the session nothing.
    await session.run(pid);
  });
});
