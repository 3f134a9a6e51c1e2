import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";
import { OPERATIONS } from "../../libs/jobs-admin/src/openapi/operations.js";
import { AdminApp, TOKENS } from "../support/admin-app.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

const ROOT = path.resolve(import.meta.dirname, "../..");
const OUT = path.join(ROOT, "dist/docs-admin");
const page = readFileSync(path.join(ROOT, "docs/admin.md"), "utf8");
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(
    ([, text]) => text!,
  );

it("the code of docs/admin.md type-checks", () => {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  const files = blocks("ts").map((text) => {
    const file = path.join(OUT, /^\/\/ ([\w.-]+\.ts)$/m.exec(text)![1]!);
    writeFileSync(file, text);
    return file;
  });
  expect(files).toHaveLength(2);
  const { config } = ts.readConfigFile(path.join(ROOT, "tsconfig.json"), (file) =>
    readFileSync(file, "utf8"),
  ) as { config: { compilerOptions: object } };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT);
  const problems = ts
    .getPreEmitDiagnostics(ts.createProgram(files, options))
    .map(
      ({ messageText, file }) =>
        `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`,
    );
  expect(problems).toEqual([]);
});

it("has every route, with its role", () => {
  const rows = [...page.matchAll(/^\| (`(?:GET|POST|PATCH|DELETE) .*?) \| (\w+) \|/gm)];
  const told = rows.flatMap(([, routes, role]) =>
    [...routes!.matchAll(/`(\w+) ([^`]+)`/g)].map(([, method, at]) => `${method} ${at} ${role}`),
  );
  const known = OPERATIONS.filter(({ path: at }) => at !== "").map(
    ({ method, path: at, role }) => `${method.toUpperCase()} ${at} ${role}`,
  );
  expect(told.sort()).toEqual(known.sort());
});

/** Words of a command, as a shell reads them. */
function words(command: string, variables: Record<string, string>): string[] {
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) =>
      single ?? (double ?? bare)!.replaceAll(/\$(\w+)/g, (_, name: string) => variables[name]!),
  );
}

it("each command of docs/admin.md is answered", async () => {
  const bench = await Bench.open();
  const admin = await AdminApp.open(bench);
  const { id } = await admin.jobs.enqueue("send", {}, { queue: "mail", delay: "1h" });
  await admin.jobs.schedules.upsert("nightly", "send", { cron: "@daily", queue: "mail" });
  const commands = blocks("sh");
  expect(commands).toHaveLength(8);
  for (const command of commands) {
    // Whatever became of it before, it can be sent again.
    await until(async () => (await admin.jobs.cancel(id)) === "cancelled", { what: "it is off" });
    const [curl, ...rest] = words(command, { TOKEN: TOKENS.admin, ID: id });
    expect(curl).toBe("curl");
    const headers: Record<string, string> = {};
    const sent = { method: "GET", body: undefined as string | undefined, url: "" };
    while (rest.length > 0) {
      const word = rest.shift()!;
      if (word === "-N") continue;
      if (word === "-X") sent.method = rest.shift()!;
      else if (word === "-d") sent.body = rest.shift()!;
      else if (word === "-H") {
        const [name, value] = rest.shift()!.split(": ");
        headers[name!.toLowerCase()] = value!;
      } else sent.url = word;
    }
    const at = sent.url.replace("http://127.0.0.1:3001/admin/", "");
    const answer = await admin.call(sent.method.toLowerCase(), at, {
      as: null,
      body: sent.body,
      headers,
    });
    expect([command, answer.status]).toEqual([command, 200]);
  }
  await admin.close();
  await bench.close();
});
