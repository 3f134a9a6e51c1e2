import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { Bench } from "../support/harness.js";

// What docs/sql.md shows is what has been tried: each client's code by test/sql/clients.int-spec.ts.

const ROOT = path.resolve(import.meta.dirname, "../..");
const page = readFileSync(path.join(ROOT, "docs/sql.md"), "utf8");
const blocks = [...page.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language, text]) => ({
  language: language!,
  text: text!,
}));

it("the code for each client is the file that is run", () => {
  const folder = path.join(ROOT, "test/sql/clients");
  const files = readdirSync(folder).map(
    (name) => `// ${name}\n${readFileSync(path.join(folder, name), "utf8")}`,
  );
  const shown = blocks.filter(({ language }) => language === "ts").map(({ text }) => text);
  expect(shown.sort()).toEqual(files.sort());
});

it("the SQL runs, from top to bottom", async () => {
  const bench = await Bench.open();
  try {
    const commands = blocks.filter(({ language }) => language === "sql").map(({ text }) => text);
    expect(commands).toHaveLength(3);
    for (const text of commands) await bench.sql(text);
    expect(
      await bench.sql("select kind, queue, priority, key, attempts, payload from jobs.job_status"),
    ).toEqual([
      {
        kind: "mail.welcome",
        queue: "default",
        priority: 5,
        key: "ada@example.com",
        attempts: 3,
        payload: { email: "ada@example.com" },
      },
    ]);
  } finally {
    await bench.close();
  }
});
