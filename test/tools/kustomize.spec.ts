import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

// Which command renders deploy/kubernetes, and what .ci/run is told where there is none.

const TOOL = path.resolve(import.meta.dirname, "../../tools/kustomize.mjs");

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), "jobs-kustomize-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What is said on a machine where these tools print this. */
function said(tools: Record<string, string>): string {
  for (const [name, prints] of Object.entries(tools))
    writeFileSync(path.join(folder, name), `#!/bin/sh\n/bin/echo '${prints}'\n`, { mode: 0o755 });
  const { stdout, status } = spawnSync(process.execPath, [TOOL], {
    env: { PATH: folder },
    encoding: "utf8",
  });
  expect(status).toBe(0);
  return stdout.trim();
}

it.each([
  ["kustomize itself", { kustomize: "v5.1.0" }],
  ["as older ones print it", { kustomize: "{Version:kustomize/v6.0.1 GitCommit:1 GoOs:linux}" }],
  ["a kubectl", { kubectl: "Client Version: v1.32.4\nKustomize Version: v5.5.0" }],
  ["a kubectl beside an old one", { kustomize: "v4.5.7", kubectl: "Kustomize Version: v5.10.0" }],
])("is there: %s", (_, tools) => expect(said(tools)).toBe(""));

it.each([
  ["neither kustomize nor kubectl is installed", {}],
  ["what kustomize has is older than kustomize 5.1", { kustomize: "v5.0.3" }],
  [
    "what kubectl has is older than kustomize 5.1",
    { kubectl: "Client Version: v1.28.1\nKustomize Version: v5.0.4" },
  ],
  // Debian's kubectl says nothing of it.
  [
    "what kustomize or kubectl has is older than kustomize 5.1",
    { kustomize: "v4.5.7", kubectl: "Client Version: v1.20.5" },
  ],
])("says what is missing: %s", (missing, tools) => expect(said(tools)).toBe(missing));
