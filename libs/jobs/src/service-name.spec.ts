import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { serviceName } from "./service-name.js";

describe("serviceName", () => {
  let folder: string;
  beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), "jobs-service-"))));
  afterEach(() => rmSync(folder, { recursive: true }));

  const entry = (...at: string[]) => path.join(folder, ...at);

  it("is the package and the file in it, wherever it is installed", () => {
    mkdirSync(entry("dist/apps/worker"), { recursive: true });
    writeFileSync(entry("package.json"), '{ "name": "shop" }');
    expect(serviceName(entry("dist/apps/worker/main.js"))).toBe("shop/dist/apps/worker/main.js");
  });

  it("goes on to the folder above where a manifest has no name, or cannot be read", () => {
    mkdirSync(entry("dist/esm"), { recursive: true });
    writeFileSync(entry("package.json"), '{ "name": "@shop/jobs" }');
    writeFileSync(entry("dist/package.json"), '{ "type": "module" }');
    writeFileSync(entry("dist/esm/package.json"), "{");
    expect(serviceName(entry("dist/esm/main.js"))).toBe("@shop/jobs/dist/esm/main.js");
  });

  it("is the file alone without a package, and node without a file", () => {
    const alone = path.join(path.parse(folder).root, "nowhere", "main.js");
    expect(serviceName(alone)).toBe("main.js");
    expect(serviceName(undefined)).toBe("node");
  });
});
