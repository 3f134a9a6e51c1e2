import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { jest } from "@jest/globals";
import { main } from "../../libs/jobs/src/cli/main.js";
import { MIGRATIONS } from "../../libs/jobs/src/store/migrations/migrate.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// The command line that people and pipelines run: pg-jobs migrate, pg-jobs plan.

const bin = path.join(import.meta.dirname, "../../libs/jobs/bin/pg-jobs.mjs");

const ALL = MIGRATIONS.map(({ version }) => version);

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open({ migrated: false })));
afterEach(async () => await bench.close());

async function run(args: string[], env: Record<string, string> = {}) {
  const { DATABASE_URL: _url, JOBS_SCHEMA: _schema, ...rest } = process.env;
  const child = spawn(process.execPath, [bin, ...args], { env: { ...rest, ...env } });
  const said = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said.out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said.err += text));
  const [code] = (await once(child, "close")) as [number];
  return { code, ...said };
}

/** The same without a process of its own: quicker. */
async function call(args: string[], env: Record<string, string> = {}) {
  const said = { out: "", err: "" };
  const listen = (stream: NodeJS.WriteStream, name: "out" | "err") =>
    jest.spyOn(stream, "write").mockImplementation((text) => Boolean((said[name] += String(text))));
  const spies = [listen(process.stdout, "out"), listen(process.stderr, "err")];
  try {
    const code = await main(args, env);
    return { code, ...said };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

const here = () => ({ DATABASE_URL: bench.url, JOBS_SCHEMA: bench.schema });

describe("pg-jobs", () => {
  it("migrates what the environment names, once", async () => {
    expect(await run(["migrate"], here())).toEqual({
      code: 0,
      out: `applied ${ALL.join(", ")}\n`,
      err: "",
    });
    const again = await run(["migrate"], here());
    expect(again).toEqual({ code: 0, out: "nothing to do: the schema is up to date\n", err: "" });
    expect(await bench.sql("select version from jobs.migration")).toEqual(
      ALL.map((version) => ({ version })),
    );
  });

  it.each<[NodeJS.Signals, number]>([
    ["SIGTERM", 143],
    ["SIGINT", 130],
  ])(
    "ends at %s by itself, as the first process of a container must, and leaves nothing half done",
    async (signal, ends) => {
      const somebody = await bench.client();
      const locks =
        "select from pg_locks where locktype = 'advisory' and objid = 7463825 and database = " +
        "(select oid from pg_database where datname = current_database())";
      // All migrations of a database wait for one another: this one is in the middle.
      await somebody.query("begin; select pg_advisory_xact_lock(7463825)");
      const child = spawn(process.execPath, [bin, "migrate"], {
        env: { ...process.env, ...here() },
      });
      await until(async () => (await bench.sql(`${locks} and not granted`)).length > 0, {
        what: "it waits",
      });
      const closed = once(child, "close");
      child.kill(signal);
      // Its own code: a signal without a handler would be the answer here, and none at all to a first process.
      expect(await closed).toEqual([ends, null]);
      await somebody.query("rollback");
      somebody.release();
      await until(async () => (await bench.sql(locks)).length === 0, {
        what: "the server has let go",
      });
      expect(
        await bench.sql("select from pg_namespace where nspname = $1", [bench.schema]),
      ).toEqual([]);
      expect(await call(["migrate"], here())).toMatchObject({ code: 0 });
    },
  );

  it("takes options before the environment", async () => {
    const wrong = { DATABASE_URL: "postgres://nobody@127.0.0.1:1/x", JOBS_SCHEMA: "elsewhere" };
    const args = ["migrate", "--url", bench.url, `--schema=${bench.schema}`];
    expect(await run(args, wrong)).toMatchObject({ code: 0, out: `applied ${ALL.join(", ")}\n` });
    expect(await bench.sql("select 1 from pg_namespace where nspname = 'elsewhere'")).toEqual([]);
  });

  it("prints a plan that a database takes, and a comment when there is nothing to do", async () => {
    const { code, out, err } = await run(["plan"], here());
    expect([code, err]).toEqual([0, ""]);
    await bench.sql(out);
    const { out: empty } = await run(["plan"], here());
    expect(empty).toBe("-- nothing to do: the schema is up to date\n");
    await bench.sql(empty);
    expect(await call(["migrate"], here())).toMatchObject({
      out: expect.stringContaining("nothing to do"),
    });
  });

  it("helps when asked, and when nothing was said", async () => {
    for (const args of [[], ["help"], ["--help"], ["-h"], ["migrate", "--help"]])
      expect(await call(args)).toMatchObject({
        code: 0,
        out: expect.stringContaining("pg-jobs migrate"),
        err: "",
      });
  });

  it.each<[string[], Record<string, string>, RegExp]>([
    [["migrat"], {}, /unknown command "migrat", did you mean migrate\?$/],
    [["plans"], {}, /did you mean plan\?$/],
    [["frobnicate"], {}, /unknown command "frobnicate", known are migrate, plan$/],
    [["__proto__"], {}, /unknown command "__proto__", known/],
    [["constructor"], {}, /unknown command "constructor", known/],
    [["migrate", "now"], {}, /expected one command, found also "now"/],
    [["postgres://me:secret@host/x"], {}, /unknown command a URL, known/],
    [["migrate", "postgres://me:secret@host/x"], {}, /expected one command, found also a URL/],
    [["migrate"], {}, /--url or DATABASE_URL/],
    [["migrate"], { DATABASE_URL: "" }, /--url or DATABASE_URL/],
    [["migrate", "--shema", "x"], {}, /unknown option --shema, did you mean --schema\?$/],
    [["migrate", "--shema=x"], {}, /unknown option --shema, did you mean --schema\?$/],
    [["migrate", "--frobnicate"], {}, /unknown option --frobnicate, known are --url, --schema/],
    [["migrate", "--__proto__"], {}, /unknown option --__proto__, known/],
    [["migrate", "-x"], {}, /unknown option -x, known/],
    [["migrate", "--url"], {}, /expected a value after --url, found none$/],
    [["migrate", "--url", "--schema", "x"], {}, /expected a value after --url, found --schema$/],
    [["migrate", "--help=yes"], {}, /expected --help alone/],
    [["migrate", "--url="], { DATABASE_URL: "postgres://a@127.0.0.1:1/x" }, /--url.*empty/],
    [["plan", "--url", "postgres://me:secret@[::1/x"], {}, /URL that can be parsed/],
    [["migrate", "--url", "postgres://a@127.0.0.1:1/x", "--schema", "a-b"], {}, /--schema/],
    [["migrate", "--url", "postgres://a@127.0.0.1:1/x", "--schema", 'a"; drop'], {}, /--schema/],
    [["migrate"], { DATABASE_URL: "postgres://a@127.0.0.1:1/x", JOBS_SCHEMA: "A" }, /JOBS_SCHEMA/],
    [["migrate", "--url", "not a url, secret"], {}, /postgres:\/\//],
    [["migrate", "--url", "postgres://me:secret@127.0.0.1:99999/x"], {}, /port of 1\.\.65535/],
    [["migrate", "--url", "postgres://me:#secret@127.0.0.1/x"], {}, /no raw #/],
    [["migrate", "--url", "mysql://me:secret@host/x"], {}, /postgres:\/\//],
  ])("does not understand %p %p", async (args, env, message) => {
    const { code, out, err } = await call(args, env);
    expect([code, out]).toEqual([2, ""]);
    expect(err.trim()).toMatch(message);
    expect(err).toMatch(/^pg-jobs: .*\n$/);
    expect(err).not.toContain("secret");
  });

  it.each(["migrate", "plan"])(
    "says in one line that the database is away: %s",
    async (command) => {
      const { proxy, url } = await bench.line();
      proxy.setMode("reset");
      for (const DATABASE_URL of [
        url,
        "postgres://me:secret@127.0.0.1:1/x",
        "postgres://me:secret@no.such.host.invalid/x",
      ]) {
        const { code, out, err } = await call([command], { DATABASE_URL });
        expect([code, out]).toEqual([1, ""]);
        expect(err).toMatch(/^pg-jobs: cannot reach the database: .+\n$/);
        expect(err).not.toContain("secret");
      }
    },
  );

  it("says in one line what the database refuses", async () => {
    const url = new URL(bench.url);
    url.pathname = "/no_such_database";
    const { code, err } = await call(["migrate"], { DATABASE_URL: url.href });
    expect(code).toBe(1);
    // A pooler says it with a state that it uses for an outage too.
    expect(err).toMatch(
      /^pg-jobs: (cannot connect: database "no_such_database" does not exist \(3D000\); create this database, or correct its name in the connection|cannot reach the database: database "no_such_database" does not exist)\n$/,
    );
    await bench.migrate();
    await bench.sql("update jobs.migration set checksum = 'edited'");
    expect(await call(["migrate"], here())).toEqual({
      code: 1,
      out: "",
      err: expect.stringMatching(/^pg-jobs: migration 1 was applied with checksum edited.*\n$/),
    });
  });

  it("uses the default schema when the variable is empty", async () => {
    const { out } = await call(["plan"], { DATABASE_URL: bench.url, JOBS_SCHEMA: "" });
    expect(out).toMatch(/"jobs"|nothing to do/);
  });

  it("migrates once when ten pipelines start at once", async () => {
    const runs = await Promise.all(
      Array.from({ length: 10 }, async () => await run(["migrate"], here())),
    );
    expect(runs.map(({ code }) => code)).toEqual(Array.from({ length: 10 }, () => 0));
    expect(runs.filter(({ out }) => out === `applied ${ALL.join(", ")}\n`)).toHaveLength(1);
  });
});
