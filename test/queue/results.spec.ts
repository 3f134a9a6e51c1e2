import {
  type JobContext,
  JobQueue,
  JobResultCancelledError,
  JobResultClosedError,
  JobResultDeadError,
  JobResultError,
  JobResultNotKeptError,
  JobResultSkippedError,
  JobResultTimeoutError,
  JobResultUnknownError,
  bury,
  defineJob,
  fixed,
  skip,
  snooze,
} from "nestjs-pg-jobs";
import { firstRelease } from "../support/first-release.js";
import { Gate, handler, payloads, reached, row } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { Role } from "../support/role.js";
import { until } from "../support/until.js";

const Resize = defineJob<{ width: number }, { width: number }>("resize");
const Gated = defineJob("gated", { attempts: 1 });

let bench: Bench;
let jobs: JobQueue;
let gate: Gate;

const providers = () => [
  handler(Resize, ({ width }) => ({ width: width / 2 })),
  handler("nothing", () => undefined),
  handler("fails", () => Promise.reject(new TypeError("no such picture")), { attempts: 1 }),
  handler("buried", () => bury("no use")),
  handler("skips", () => skip("nothing to do")),
  handler(
    "third",
    (_, { attempt }: JobContext) => {
      if (attempt === 1) throw new Error("once more");
      return attempt === 2 ? snooze(1) : `run ${attempt}`;
    },
    { backoff: fixed(1) },
  ),
  handler("transacts", async (_, job: JobContext) => {
    await job.transaction(async (tx) => (await tx.query("select 1")).rowCount);
  }),
  handler(Gated, async () => {
    await gate.opened;
    return "opened";
  }),
];

beforeAll(async () => void (bench = await Bench.open()));
afterAll(async () => await bench.close());
beforeEach(async () => {
  gate = new Gate();
  jobs = await bench.producer();
});
afterEach(async () => {
  gate.open();
  await bench.closeApps();
});

/** What the call rejects with. */
const refusal = async (call: Promise<unknown>): Promise<JobResultError> =>
  await call.then(
    (value) => {
      throw new Error(`it resolved with ${JSON.stringify(value)}`);
    },
    (error: JobResultError) => error,
  );
const awaitedRow = async (id: string) =>
  await until(
    async () =>
      (await bench.sql("select 1 from jobs.job where awaited and queue_id || '-' || id = $1", [id]))
        .length,
    { what: `job ${id} is marked` },
  );

describe("the result of a job", () => {
  it("is what its handler returned, in another process, before and after it has ended", async () => {
    const { id } = await jobs.enqueue(Resize, { width: 800 });
    const before = jobs.result<typeof Resize>(id);
    await awaitedRow(id);
    await bench.worker(providers());
    const { width } = await before;
    expect(width).toBe(400);
    expect(await jobs.result(id)).toEqual({ width: 400 });
  });

  it("is null where nothing was returned, and the value of job.transaction()", async () => {
    await bench.worker(providers());
    for (const [kind, result] of [
      ["nothing", null],
      ["transacts", 1],
    ]) {
      const { id } = await jobs.enqueue(String(kind));
      expect(await jobs.result(id)).toBe(result);
    }
  });

  it("is waited for through failures and snoozes", async () => {
    await bench.worker(providers());
    const { id } = await jobs.enqueue("third");
    expect(await jobs.result(id)).toBe("run 3");
  });

  it("is each caller's own", async () => {
    const { id } = await jobs.enqueue(Resize, { width: 2 });
    const both = [jobs.result(id), jobs.result(id)];
    await bench.worker(providers());
    const [one, other] = await Promise.all(both);
    expect(one).toEqual(other);
    expect(one).not.toBe(other);
  });

  it("may be awaited by the handler of another job, with the connections that the worker has", async () => {
    const app = await bench.worker([
      ...providers(),
      handler("parent", async (_, job: JobContext) => {
        const { id } = await job.enqueue(Resize, { width: 100 });
        return await app.get(JobQueue).result(id, { signal: job.signal });
      }),
    ]);
    const { id } = await jobs.enqueue("parent");
    expect(await jobs.result(id)).toEqual({ width: 50 });
  });
});

describe("without a result it rejects", () => {
  it("for a job that dies, with its last error", async () => {
    const { id } = await jobs.enqueue("fails");
    const call = refusal(jobs.result(id));
    await awaitedRow(id);
    await bench.worker(providers());
    const error = await call;
    expect(error).toBeInstanceOf(JobResultDeadError);
    expect(error).toMatchObject({
      code: "RESULT_DEAD",
      id,
      kind: "fails",
      state: "dead",
      lastError: { name: "TypeError", message: "no such picture" },
    });
    expect(error.message).toContain("TypeError: no such picture");
    const buried = (await jobs.enqueue("buried")).id;
    expect(await refusal(jobs.result(buried))).toMatchObject({
      code: "RESULT_DEAD",
      lastError: { name: "Buried", message: "no use" },
      message: expect.stringContaining("found it dead: Buried: no use."),
    });
  });

  it("for one that lies in the archive", async () => {
    await bench.worker(providers());
    const { id } = await jobs.enqueue("fails");
    await reached(bench, id, "dead");
    await bench.sql(
      `with gone as (delete from jobs.dead returning *)
       insert into jobs.dead_archive (id, finished_at, created_at, run_at, started_at, worker, attempt, queue_id, failures,
         crashes, lane, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload, reason, error, errors)
       select id, finished_at, created_at, run_at, started_at, worker, attempt, queue_id, failures,
         crashes, lane, generation, attempts, timeout_ms, kind, key, limit_key, headers, payload, reason, error, errors from gone`,
    );
    expect(await refusal(jobs.result(id))).toBeInstanceOf(JobResultDeadError);
  });

  it("for a job that is skipped, with the reason", async () => {
    await bench.worker(providers());
    const { id } = await jobs.enqueue("skips");
    const error = await refusal(jobs.result(id));
    expect(error).toBeInstanceOf(JobResultSkippedError);
    expect(error).toMatchObject({ id, kind: "skips", state: "skipped", reason: "nothing to do" });
  });

  it("for a job that is cancelled: while it waits, and while it runs", async () => {
    const { id } = await jobs.enqueue(Gated);
    const call = refusal(jobs.result(id));
    await awaitedRow(id);
    await jobs.cancel(id);
    expect(await call).toBeInstanceOf(JobResultCancelledError);
    expect(await call).toMatchObject({ id, kind: "gated", state: "cancelled" });

    await bench.worker([
      handler("again", async () => {
        await gate.opened;
        throw new Error("so that its cancel counts");
      }),
    ]);
    const running = (await jobs.enqueue("again")).id;
    await reached(bench, running, "running");
    const second = refusal(jobs.result(running));
    await awaitedRow(running);
    expect(await jobs.cancel(running)).toBe("requested");
    gate.open();
    expect(await second).toBeInstanceOf(JobResultCancelledError);
  });

  it("for a job that does not exist, at once", async () => {
    const { id } = await jobs.enqueue("far", {}, { delay: "1h" });
    const [queue, number] = id.split("-");
    for (const unknown of [
      `${queue}-${BigInt(number!) + 1_000_000n}`,
      `${+queue! + 1}-${number}`,
    ]) {
      const error = await refusal(jobs.result(unknown));
      expect(error).toBeInstanceOf(JobResultUnknownError);
      expect(error).toMatchObject({ id: unknown, kind: null, state: null });
      expect(error.message).toContain("keep: false");
    }
  });

  it("for a job of a queue that keeps nothing, as soon as it is gone", async () => {
    const { id } = await jobs.enqueue(Resize, { width: 2 });
    const call = refusal(jobs.result(id, { timeout: "1h" }));
    await awaitedRow(id);
    await bench.worker(providers(), { queues: { default: { keep: false } } });
    const error = await call;
    expect(error).toBeInstanceOf(JobResultNotKeptError);
    expect(error).toMatchObject({ id, kind: "resize" });
    expect(error.message).toContain("keep: false");
  });

  it("when the time is over; the job goes on", async () => {
    await bench.worker(providers());
    const { id } = await jobs.enqueue(Gated);
    await reached(bench, id, "running");
    const error = await refusal(jobs.result(id, { timeout: "300ms" }));
    expect(error).toBeInstanceOf(JobResultTimeoutError);
    expect(error).toMatchObject({ id, kind: "gated", state: "running", timeoutMs: 300 });
    gate.open();
    expect(await jobs.result(id)).toBe("opened");
  });

  it("when its signal aborts, with its reason; nobody else's call does", async () => {
    await bench.worker(providers());
    const { id } = await jobs.enqueue(Gated);
    const controller = new AbortController();
    const other = jobs.result(id);
    const call = refusal(jobs.result(id, { signal: controller.signal }));
    await awaitedRow(id);
    const reason = new Error("the client has gone");
    controller.abort(reason);
    expect(await call).toBe(reason);
    expect(await refusal(jobs.result(id, { signal: controller.signal }))).toBe(reason);
    gate.open();
    expect(await other).toBe("opened");
  });

  it("when its app closes, and after that", async () => {
    const { id } = await jobs.enqueue("far", {}, { delay: "1h" });
    const call = refusal(jobs.result(id, { timeout: "1h" }));
    await awaitedRow(id);
    await bench.closeApps();
    expect(await call).toBeInstanceOf(JobResultClosedError);
    expect(await call).toMatchObject({ id });
    expect(await refusal(jobs.result(id))).toBeInstanceOf(JobResultClosedError);
  });

  it.each([
    ["1-1", { timeout: 0 }, "OPTIONS_INVALID"],
    ["1-1", { timeout: -1 }, "OPTIONS_INVALID"],
    ["1-1", { timeout: Number.NaN }, "OPTIONS_INVALID"],
    ["1-1", { timeout: "3660d" }, "OPTIONS_INVALID"],
    ["1-1", { timeout: "soon" }, "OPTIONS_INVALID"],
    ["1-1", { timeuot: "1s" }, "OPTIONS_INVALID"],
    ["1-1", { signal: true }, "OPTIONS_INVALID"],
    ["1-1", null, "OPTIONS_INVALID"],
    ["1-01", {}, "JOB_ID_INVALID"],
    [7, {}, "JOB_ID_INVALID"],
  ])("for what is no call: %j, %j", async (id, options, code) => {
    const call = jobs.result(id as string, options as object);
    await expect(call).rejects.toMatchObject({ code });
  });
});

describe("a wait", () => {
  it("for a dead job that was requeued is for its new run", async () => {
    let fails = true;
    await bench.worker([
      handler(Gated, async () => {
        if (fails) throw new Error("not yet");
        await gate.opened;
        return "at last";
      }),
    ]);
    const { id } = await jobs.enqueue(Gated);
    expect(await refusal(jobs.result(id))).toBeInstanceOf(JobResultDeadError);
    fails = false;
    expect(await jobs.requeue(id)).toBe("queued");
    const call = jobs.result(id);
    await awaitedRow(id);
    gate.open();
    expect(await call).toBe("at last");
  });

  it("that began before a requeue nobody saw has the new run marked as well", async () => {
    const { id } = await jobs.enqueue("far", {}, { delay: "1h" });
    const call = refusal(jobs.result(id));
    await awaitedRow(id);
    await bench.sql("update jobs.job set awaited = null");
    await awaitedRow(id);
    await jobs.cancel(id);
    expect(await call).toBeInstanceOf(JobResultCancelledError);
  });

  it("does not wait for a lock on the job, nor does anybody wait for it", async () => {
    const { id } = await jobs.enqueue("far", {}, { delay: "1h" });
    const client = await bench.client();
    await client.query(`begin; select from ${bench.schema}.job for update`);
    const call = refusal(jobs.result(id, { timeout: "1h" }));
    // They go through the same connection.
    await jobs.enqueue("far", {}, { delay: "1h" });
    expect((await row(bench, id)).state).toBe("queued");
    await client.query("rollback");
    client.release();
    await awaitedRow(id);
    await jobs.cancel(id);
    expect(await call).toBeInstanceOf(JobResultCancelledError);
  });

  it("outlasts the loss of every connection", async () => {
    const { id } = await jobs.enqueue("far", {}, { delay: "1h" });
    const { proxy, url } = await bench.line();
    const remote = await bench.producer({ connection: { url } });
    const call = refusal(remote.result(id));
    await awaitedRow(id);
    proxy.setMode("reset");
    await jobs.cancel(id);
    expect(await refusal(remote.result(id, { timeout: 10 }))).toBeInstanceOf(JobResultTimeoutError);
    proxy.setMode("pass");
    expect(await call).toBeInstanceOf(JobResultCancelledError);
  });

  it("is served by the poll where nothing is heard", async () => {
    const deaf = await bench.producer({ notify: false });
    await bench.worker(providers());
    const { id } = await deaf.enqueue(Gated);
    const call = deaf.result(id);
    await awaitedRow(id);
    gate.open();
    expect(await call).toBe("opened");
  });

  it("works for a role that may only read, and is told where it may not do that", async () => {
    const role = await Role.create(bench);
    try {
      const reader = await bench.producer({ connection: { url: role.url } });
      const { id } = await jobs.enqueue(Gated);
      await expect(reader.result(id)).rejects.toMatchObject({ code: "DATABASE_REFUSED" });
      await bench.sql(`grant usage on schema ${bench.schema} to ${role.name}`);
      await bench.sql(`grant select on all tables in schema ${bench.schema} to ${role.name}`);
      const call = reader.result(id);
      gate.open();
      await bench.worker(providers());
      expect(await call).toBe("opened");
    } finally {
      await bench.closeApps();
      await role.drop();
    }
  });

  it("works on the schema of the first release, and says when there is none", async () => {
    const old = await firstRelease();
    try {
      const there = await old.producer();
      const { id } = await there.enqueue(Resize, { width: 4 });
      const call = there.result(id);
      await old.worker(providers());
      expect(await call).toEqual({ width: 2 });
    } finally {
      await old.close();
    }
    const none = await Bench.open({ migrated: false });
    try {
      const call = (await none.producer()).result("1-1");
      await expect(call).rejects.toMatchObject({ code: "SCHEMA_NOT_READY" });
    } finally {
      await none.close();
    }
  });

  it("for many jobs of several queues is answered for each", async () => {
    const all = [
      ...(await jobs.enqueueMany(
        Resize,
        payloads(300).map((_, width) => ({ width })),
      )),
      ...(await jobs.enqueueMany(
        Resize,
        payloads(300).map((_, width) => ({ width })),
        {
          queue: "other",
        },
      )),
    ];
    const answers = Promise.all(all.map(({ id }) => jobs.result<typeof Resize>(id)));
    await bench.worker(providers(), { queues: { default: {}, other: {} } });
    const widths = (await answers).map(({ width }) => width * 2);
    expect(widths).toEqual([...payloads(300).keys(), ...payloads(300).keys()]);
  });
});
