// What `npm test` runs: all specs; or, with arguments, whatever Jest makes of them.
import { readdirSync } from "node:fs";
import path from "node:path";
import { root, runJest } from "./jest-run.mjs";

// These would disturb, or be disturbed by, specs that run beside them.
const SERIAL = String.raw`test/faults/(?!idle)|\.serial-spec\.ts$`;
// It waits for a minute, with a server of its own, and does nothing: that goes beside the others.
const PATIENT = String.raw`test/faults/idle`;
// Arguments that leave the choice of specs as it is; any other one narrows it.
const HARMLESS = /^(--ci|--verbose|--silent|--colors|--no-cache|--runInBand|-i)$/;

function specsOnDisk() {
  const files = ["libs", "apps", "test"].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true }).map((name) =>
      path.join(folder, name),
    ),
  );
  return files.filter((file) => {
    const built = file.split(path.sep).some((part) => part === "dist" || part === "node_modules");
    return !built && /[.-]spec\.ts$/.test(file);
  });
}

async function runAll(args) {
  const runs = await Promise.all([
    runJest([...args, `--testPathIgnorePatterns=${SERIAL}|${PATIENT}`, "/node_modules/"]),
    runJest([...args, "--runInBand", `--testPathPatterns=${PATIENT}`], {
      env: { TEST_DATABASES: "jobs_patient" },
    }),
  ]);
  // They wait for processes mostly: three at a time do well on two cores.
  runs.push(await runJest([...args, "--maxWorkers=3", `--testPathPatterns=${SERIAL}`]));
  return { runs, specs: specsOnDisk() };
}

/** A spec file that Jest does not pick up would otherwise never be missed. */
function complaints(specs, runs) {
  const ran = new Set(runs.flatMap((run) => run.files));
  const left = specs.filter((file) => !ran.has(file)).map((file) => `did not run: ${file}`);
  const total = sum(runs, "passed") + sum(runs, "failed");
  return total === 0 ? ["no test ran", ...left] : left;
}

const sum = (runs, key) => runs.reduce((total, run) => total + run[key], 0);

const args = process.argv.slice(2);
const everything = args.every((arg) => HARMLESS.test(arg));
const { runs, specs } = everything
  ? await runAll(args)
  : { runs: [await runJest(args)], specs: [] };
const problems = complaints(specs, runs);
for (const problem of problems) console.error(problem);
console.log(
  `\n${sum(runs, "passed")} passed, ${sum(runs, "failed")} failed, ${sum(runs, "skipped")} skipped`,
);
process.exitCode = problems.length > 0 || runs.some((run) => run.code !== 0) ? 1 : 0;
