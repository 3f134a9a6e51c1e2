import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";

const ROOT = path.resolve(import.meta.dirname, "../..");
const OUT = path.join(ROOT, "dist/docs-handlers");

describe("the code blocks of docs/handlers.md", () => {
  it("type-check", () => {
    rmSync(OUT, { recursive: true, force: true });
    mkdirSync(OUT, { recursive: true });
    const page = readFileSync(path.join(ROOT, "docs/handlers.md"), "utf8");
    const files = [...page.matchAll(/^```ts\n(\/\/ ([\w.-]+\.ts)\n.*?)^```$/gms)].map(
      ([, text, name]) => {
        const file = path.join(OUT, name!);
        writeFileSync(file, text!);
        return file;
      },
    );
    expect(files).toHaveLength(page.match(/^```ts$/gm)!.length);
    expect(files).toHaveLength(4);
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
});
