import { exponential } from "./job/backoff.js";
import { OptionsError } from "./job/errors.js";
import type { JobsOptions, WorkerOptions } from "./jobs.options.js";
import { parseHandlerOptions, parseJobsOptions, parseWorkerOptions } from "./jobs.options.js";

const url = "postgres://user:secret@localhost/db";
const connection = { url };
const problems = (run: () => unknown): readonly string[] => {
  try {
    run();
  } catch (error) {
    if (error instanceof OptionsError) return error.problems;
    throw error;
  }
  return [];
};

describe("parseJobsOptions", () => {
  it("fills in the defaults", () => {
    const parsed = parseJobsOptions({ connection });
    expect(parsed).toEqual({
      connection: { from: "url", url, listenUrl: null },
      connections: 10,
      schema: "jobs",
      migrate: "never",
      roles: new Map(),
      defaults: { attempts: null, backoff: null, timeoutMs: null, retryOn: null, buryOn: null },
      notify: true,
      payloadLimit: 1_048_576,
      resultLimit: 1_048_576,
      keepFinishedMs: 604_800_000,
    });
    expect(Object.isFrozen(parsed)).toBe(true);
  });

  it("takes the roles that a migration gives rights to", () => {
    const migrate = "on-start" as const;
    const roles = { producer: "api", worker: ["a", "b", "a"] };
    expect(parseJobsOptions({ connection, migrate, roles }).roles).toEqual(
      new Map([
        ["producer", ["api"]],
        ["worker", ["a", "b"]],
      ]),
    );
    const bad = (value: unknown, more = { migrate }) =>
      problems(() =>
        parseJobsOptions({ connection, ...more, roles: value } as unknown as JobsOptions),
      );
    const expected = "expected the name of a role, of at most 63 bytes, other than public";
    expect(bad({ producer: "public" })).toEqual([`roles.producer: ${expected}, found "public"`]);
    expect(bad({ worker: [], admin: ["x", 7] })).toEqual([
      `roles.worker: ${expected}, found undefined`,
      `roles.admin: ${expected}, found 7`,
    ]);
    expect(bad({ operator: "x" })).toEqual([
      expect.stringMatching(/^roles\.operator: unknown option/),
    ]);
    expect(bad("api")).toEqual(["roles: expected an object, found a string"]);
    expect(problems(() => parseJobsOptions({ connection, roles }))).toEqual([
      expect.stringMatching(/^roles: expected together with migrate: 'on-start' only/),
    ]);
  });

  it("takes each kind of connection", () => {
    const dataSource = { options: { type: "postgres" } };
    const pool = { options: {} };
    expect(parseJobsOptions({ connection: { dataSource } }).connection).toEqual({
      from: "dataSource",
      dataSource,
    });
    expect(parseJobsOptions({ connection: { pool } }).connection).toEqual({ from: "pool", pool });
    const direct = "postgresql://h/d";
    expect(parseJobsOptions({ connection: { url, listenUrl: direct } }).connection).toMatchObject({
      listenUrl: direct,
    });
  });

  it.each([
    undefined,
    url,
    "host=h password=secret",
    {},
    { url: undefined },
    { url: "" },
    { url: "mysql://user:secret@h" },
    { url: `${url} ` },
    { url: "postgres://user:secret@localhost:99999/db" },
    { url: "postgres://user:12#secret@localhost/db" },
    { url, listenUrl: "postgres://user:secret@localhost:99999/db" },
    { pool: { options: { connectionString: "postgres://user:secret@localhost:99999/db" } } },
    { dataSource: { options: { type: "postgres", url: "postgres://user:#secret@localhost/db" } } },
    { url, pool: { options: {} } },
    { pool: url },
    { pool: { options: {} }, listenUrl: url },
    { dataSource: { options: { type: "sqlite" } } },
    { dataSource: "host=h password=secret" },
    { uri: url },
  ])("refuses a bad connection without showing it: %#", (bad) => {
    const found = problems(() => parseJobsOptions({ connection: bad } as JobsOptions));
    expect(found.length).toBeGreaterThan(0);
    expect(found.join()).not.toContain("secret");
    expect(found.every((problem) => problem.startsWith("connection"))).toBe(true);
  });

  it("tells all problems at once", () => {
    const bad = {
      conection: connection,
      connections: 0,
      schema: "Jobs",
      migrate: "on_start",
      defaults: { atempts: 1, timeout: "5" },
      notify: "yes",
      payloadLimit: 1,
      resultLimit: 1,
    };
    const found = problems(() => parseJobsOptions(bad as never));
    expect(found).toHaveLength(10);
    expect(found[0]).toBe("conection: unknown option, did you mean connection?");
    expect(found).toContain("defaults.atempts: unknown option, did you mean attempts?");
    expect(found).toContain(
      "migrate: expected 'never' or 'on-start', found \"on_start\"; did you mean 'on-start'?",
    );
  });

  it.each([null, undefined, "x", []])("refuses %p as options", (options) => {
    expect(() => parseJobsOptions(options as never)).toThrow(OptionsError);
  });

  it.each(["a".repeat(64), "1a", "a-b", "a b", "", "a;drop", "_ok$", "pg_jobs"])(
    "refuses schema %p",
    (schema) => {
      expect(problems(() => parseJobsOptions({ connection, schema }))).toHaveLength(1);
    },
  );
});

describe("keepFinished", () => {
  it.each([
    ["30d", 2_592_000_000],
    ["1h", 3_600_000],
    [86_400_000, 86_400_000],
  ])("is a duration: %p", (keepFinished, ms) => {
    expect(parseJobsOptions({ connection, keepFinished }).keepFinishedMs).toBe(ms);
  });

  it.each([0, "59m", "11y", "7", null, -1, true])("refuses %p", (keepFinished) => {
    const found = problems(() => parseJobsOptions({ connection, keepFinished } as never));
    expect(found).toEqual([expect.stringMatching(/^keepFinished: expected /)]);
  });

  it("is what keepFinised means", () => {
    const found = problems(() => parseJobsOptions({ connection, keepFinised: "7d" } as never));
    expect(found).toEqual([expect.stringMatching(/keepFinised: .*did you mean keepFinished/)]);
  });
});

describe("parseWorkerOptions", () => {
  const Feature = { module: Object };

  it("fills in the defaults", () => {
    const open = {
      imports: [Feature],
      queues: null,
      service: null,
      leaseMs: 30_000,
      pollMs: 2_000,
      graceMs: 20_000,
      globalEnhancers: false,
    };
    expect(parseWorkerOptions({ imports: [Feature] })).toEqual(open);
  });

  it("reads queues, prefetch following concurrency", () => {
    const queues = {
      mail: { concurrency: 20 },
      bulk: { concurrency: 900 },
      slow: { prefetch: 0 },
      constructor: {},
    };
    const rest = {
      history: "exceptions",
      keep: true,
      archiveDeadMs: null,
      pruneDeadMs: null,
      limits: null,
    };
    expect([...parseWorkerOptions({ imports: [], queues }).queues!]).toEqual([
      ["mail", { concurrency: 20, prefetch: 20, ...rest }],
      ["bulk", { concurrency: 900, prefetch: 500, ...rest }],
      ["slow", { concurrency: 10, prefetch: 0, ...rest }],
      ["constructor", { concurrency: 10, prefetch: 10, ...rest }],
    ]);
  });

  it("reads what a queue keeps of its jobs", () => {
    const queues = {
      mail: { history: "full", archiveDead: "30d", pruneDead: "365d" },
      bulk: { history: "none", keep: false },
    } as const;
    const parsed = parseWorkerOptions({ imports: [], queues }).queues!;
    expect(parsed.get("mail")).toMatchObject({
      history: "full",
      keep: true,
      archiveDeadMs: 2_592_000_000,
      pruneDeadMs: 31_536_000_000,
      limits: null,
    });
    expect(parsed.get("bulk")).toMatchObject({ history: "none", keep: false });
  });

  it.each([
    [{ history: "ful" }, /queues\.mail\.history: .*did you mean 'full'/],
    [{ history: true }, /queues\.mail\.history: expected 'full' or 'exceptions' or 'none'/],
    [{ histroy: "full" }, /queues\.mail\.histroy: unknown option, did you mean history/],
    [{ keep: "no" }, /queues\.mail\.keep: expected true or false/],
    [{ archiveDead: "0s" }, /queues\.mail\.archiveDead: expected a duration/],
    [{ pruneDead: "soon" }, /queues\.mail\.pruneDead: expected ms/],
    [{ prunedead: "1d" }, /did you mean pruneDead/],
    [{ archiveDead: "2d", pruneDead: "1d" }, /queues\.mail\.pruneDead: expected more than/],
  ])("refuses %p for a queue, saying why", (mail, message) => {
    const found = problems(() => parseWorkerOptions({ imports: [], queues: { mail } } as never));
    expect(found).toEqual([expect.stringMatching(message)]);
  });

  it.each([
    [{}, 1],
    [{ imports: [undefined] }, 1],
    [{ imports: [], queues: {} }, 1],
    [{ imports: [], queues: ["mail"] }, 1],
    [{ imports: [], queues: { mail: 5 } }, 1],
    [{ imports: [], queues: { "": {}, mail: { concurency: 1, prefetch: 501 } } }, 3],
    [{ imports: [], lease: "999ms", poll: "99ms", grace: -1 }, 3],
    [{ imports: [], poll: "61s" }, 1],
    [{ imports: [], queue: {} }, 1],
  ])("refuses %p", (options, count) => {
    expect(problems(() => parseWorkerOptions(options as unknown as WorkerOptions))).toHaveLength(
      count,
    );
  });
});

describe("parseHandlerOptions", () => {
  it("leaves open what nobody says", () => {
    const open = {
      concurrency: null,
      limits: null,
      batch: null,
      attempts: null,
      backoff: null,
      timeoutMs: null,
      retryOn: null,
      buryOn: null,
    };
    expect(parseHandlerOptions()).toEqual(open);
    const backoff = exponential();
    expect(parseHandlerOptions({ concurrency: 3, backoff, timeout: "1s" })).toEqual({
      ...open,
      concurrency: 3,
      backoff,
      timeoutMs: 1_000,
    });
  });

  it("tells all problems at once", () => {
    expect(
      problems(() => parseHandlerOptions({ concurency: 1, attempts: 1001, queue: "x" } as never)),
    ).toHaveLength(3);
  });
});
