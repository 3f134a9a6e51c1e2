// Runs Jest once and says what happened.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";

export const root = path.resolve(import.meta.dirname, "..");
const jest = createRequire(import.meta.url).resolve("jest/bin/jest");

// A leaked handle keeps Jest from ending; nothing here takes nearly so long.
const LIMIT = 12 * 60_000;

/** @returns {Promise<{ code: number, files: string[], passed: number, failed: number, skipped: number, output: string }>} */
export async function runJest(args, { env = {}, quiet = false } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), "jobs-jest-"));
  const report = path.join(folder, "report.json");
  const node = ["--experimental-vm-modules", "--disable-warning=ExperimentalWarning"];
  const child = spawn(
    process.execPath,
    [...node, jest, "--json", `--outputFile=${report}`, ...args],
    {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: quiet ? ["ignore", "ignore", "pipe"] : "inherit",
    },
  );
  let output = "";
  child.stderr?.setEncoding("utf8").on("data", (text) => (output += text));
  const limit = setTimeout(() => {
    console.error(`Jest has not ended after ${LIMIT / 60_000} minutes`);
    child.kill("SIGKILL");
  }, LIMIT);
  // Ctrl-C reaches Jest as well: let it stop its server, and report
  const wait = () => {};
  process.on("SIGINT", wait);
  try {
    const [code] = await once(child, "close");
    return { code: code ?? 1, output, ...readReport(report) };
  } finally {
    clearTimeout(limit);
    process.off("SIGINT", wait);
    rmSync(folder, { recursive: true });
  }
}

function readReport(file) {
  let report;
  try {
    report = JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return { files: [], passed: 0, failed: 1, skipped: 0 }; // Jest ended before its report
  }
  return {
    files: report.testResults.map((result) => path.relative(root, result.name)),
    passed: report.numPassedTests,
    // a file that could not be loaded has no tests to count
    failed: report.numFailedTests + report.numRuntimeErrorTestSuites,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}
