import { execFile, spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import ts from "typescript";
import { databaseUrl, otherDatabase } from "../support/harness.js";
import { until } from "../support/until.js";

const ROOT = path.resolve(import.meta.dirname, "../..");
const OUT = path.join(ROOT, "dist/readme");
const run = promisify(execFile);

interface Block {
  language: string;
  text: string;
}

const readme = readFileSync(path.join(ROOT, "README.md"), "utf8");
const blocks: Block[] = [...readme.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(
  ([, language, text]) => ({ language: language!, text: text! }),
);
const of = (language: string) =>
  blocks.filter((block) => block.language === language).map((block) => block.text);

describe("every code block of the README", () => {
  const database = `readme_${process.pid}`;
  let url: string;
  let client: pg.Client;

  beforeAll(async () => {
    rmSync(OUT, { recursive: true, force: true });
    mkdirSync(OUT, { recursive: true });
    const admin = new pg.Client(databaseUrl());
    await admin.connect();
    await admin.query(`create database ${database}`);
    await admin.end();
    const { direct, url: through } = otherDatabase(database);
    url = through;
    client = new pg.Client(direct);
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    const admin = new pg.Client(databaseUrl());
    await admin.connect();
    await admin.query(`drop database ${database} with (force)`);
    await admin.end();
  });

  it("is of a language that this spec tries", () => {
    expect([...new Set(blocks.map(({ language }) => language))].sort()).toEqual([
      "",
      "sh",
      "sql",
      "ts",
    ]);
  });

  it("type-checks", () => {
    const files = of("ts").map((text) => {
      const name = /^\/\/ ([\w.-]+\.ts)$/m.exec(text)?.[1];
      if (!name) throw new Error(`a block does not begin with its file name: ${text.slice(0, 60)}`);
      const file = path.join(OUT, name);
      writeFileSync(file, text);
      return file;
    });
    const { config } = ts.readConfigFile(path.join(ROOT, "tsconfig.json"), (file) =>
      readFileSync(file, "utf8"),
    ) as { config: { compilerOptions: object } };
    const { options } = ts.convertCompilerOptionsFromJson(
      { ...config.compilerOptions, noUnusedLocals: false },
      ROOT,
    );
    const program = ts.createProgram(files, options);
    const problems = ts
      .getPreEmitDiagnostics(program)
      .map(
        ({ messageText, file }) =>
          `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`,
      );
    expect(problems).toEqual([]);
  });

  it("runs, where it is a command for the database", async () => {
    const commands = of("sh").filter((text) => text.startsWith("npx pg-jobs"));
    expect(commands).toHaveLength(2);
    const outputs: string[] = [];
    for (const command of commands) {
      const { stdout } = await run("sh", ["-c", command], {
        cwd: ROOT,
        env: { ...process.env, DATABASE_URL: url },
      });
      outputs.push(stdout);
    }
    expect(outputs).toEqual([
      "applied 1, 2, 3, 4, 5, 6, 7, 8, 9\n",
      "-- nothing to do: the schema is up to date\n",
    ]);
  });

  it("names scripts that exist", () => {
    const { scripts } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    const named = of("sh")
      .filter((text) => text.startsWith("npm"))
      .map((text) => /&& npm (\w+)/.exec(text)?.[1] ?? text);
    expect(named).toEqual(["start", "test"]);
    for (const name of named) expect(scripts).toHaveProperty([name]);
  });

  it("works as a program: the example's worker greets Ada", async () => {
    const text = of("ts").find((block) => block.startsWith("// example.ts"))!;
    const { outputText } = ts.transpileModule(text, {
      compilerOptions: {
        module: ts.ModuleKind.ESNext,
        target: ts.ScriptTarget.ES2023,
        experimentalDecorators: true,
        emitDecoratorMetadata: true,
      },
    });
    const file = path.join(OUT, "example.mjs");
    writeFileSync(file, outputText);
    const child = spawn(process.execPath, [file], {
      env: { ...process.env, DATABASE_URL: url },
      stdio: "pipe",
    });
    let output = "";
    child.stdout.on("data", (data) => (output += data));
    child.stderr.on("data", (data) => (output += data));
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    try {
      const row = await until(
        async () => {
          if (child.exitCode !== null)
            throw new Error(`it ended with ${child.exitCode}: ${output}`);
          const { rows } = await client.query(
            "select result, attempt from jobs.job_status where kind = 'greet' and state = 'succeeded'",
          );
          return rows[0] as { result: string; attempt: number } | undefined;
        },
        { what: "the greeting", timeout: 30_000 },
      );
      expect(row).toEqual({
        result: expect.stringMatching(/^Hello Ada, this is attempt 1 of \d+-\d+$/) as string,
        attempt: 1,
      });
    } finally {
      child.kill("SIGTERM");
    }
    expect(await ended).toBe(0);
  });

  it("answers, where it is a query", async () => {
    for (const text of of("sql")) expect((await client.query(text)).rows).toEqual([]);
  });
});
