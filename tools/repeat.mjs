// npm run repeat -- <spec> [times]: runs a spec again and again against one server.
import { runJest } from "./jest-run.mjs";
import { startTestPostgres } from "./test-postgres.mjs";

const [spec, times = "20", ...rest] = process.argv.slice(2);
if (!spec || !(Number(times) > 0)) {
  console.error("usage: npm run repeat -- <spec> [times]");
  process.exit(2);
}

const given = process.env.TEST_DATABASE_URL;
const server = given ? undefined : await startTestPostgres();
const failures = [];
let stopped = false;
process.on("SIGINT", () => (stopped = true));
try {
  for (let run = 1; run <= Number(times) && !stopped; run++) {
    const started = performance.now();
    const result = await runJest([spec, ...rest], {
      env: { TEST_DATABASE_URL: given ?? server.url() },
      quiet: true,
    });
    const ok = result.code === 0 && result.passed > 0;
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    console.log(
      `${run}/${times} ${ok ? "ok" : "FAILED"} in ${seconds} s (${result.passed} passed, ${result.failed} failed)`,
    );
    if (ok) continue;
    failures.push(run);
    console.log(result.output);
    if (result.files.length === 0) break; // no such spec, or it cannot run at all
  }
} finally {
  await server?.stop();
}
console.log(failures.length > 0 ? `failed in run ${failures.join(", ")}` : "no run failed");
process.exitCode = failures.length > 0 || stopped ? 1 : 0;
