// `npm run measure`: repeats the loops that the design was chosen by, on this machine, in a few minutes, and
// writes docs/measurements.md; `npm run measure -- history` prints one section. Ratios within one run count; absolute numbers belong to the machine.
import { cpus, totalmem } from "node:os";
import { writeFileSync } from "node:fs";
import { startPostgres } from "./postgres.mjs";
import { measureClaims } from "./measure/claims.mjs";
import { measureEnqueue } from "./measure/enqueue.mjs";
import { measureGrowth } from "./measure/growth.mjs";
import { measureHistory } from "./measure/history.mjs";
import { measureHorizon } from "./measure/horizon.mjs";
import { measureMetrics } from "./measure/metrics.mjs";
import { measurePinned } from "./measure/pinned.mjs";
import { measurePoolers } from "./measure/poolers.mjs";
import { measureRetention } from "./measure/retention.mjs";
import { measureSchedules } from "./measure/schedules.mjs";
import { measureWholePath } from "./measure/whole-path.mjs";
import { Ground } from "./measure/ground.mjs";

const ALL = {
  enqueue: measureEnqueue,
  claims: measureClaims,
  horizon: measureHorizon,
  pinned: measurePinned,
  "whole-path": measureWholePath,
  growth: measureGrowth,
  history: measureHistory,
  retention: measureRetention,
  schedules: measureSchedules,
  metrics: measureMetrics,
  poolers: measurePoolers,
};
const [only] = process.argv.slice(2);
if (only && !(only in ALL)) throw new Error(`expected one of ${Object.keys(ALL).join(", ")}`);
const chosen = only ? [ALL[only]] : Object.values(ALL);
const started = performance.now();
const server = await startPostgres({
  durable: true,
  settings: { shared_buffers: "1GB", max_wal_size: "4GB", autovacuum_naptime: "10s" },
});
try {
  const ground = await Ground.open(server.url(), server.pid);
  const sections = [];
  for (const measure of chosen) {
    sections.push(await measure(ground));
    await ground.clear();
  }
  const version = await ground.serverVersion();
  await ground.close();
  const text = page(sections, version);
  if (only) console.log(text);
  else writeFileSync("docs/measurements.md", text);
} finally {
  await server.stop();
}

function page(sections, version) {
  const machine = `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB; PostgreSQL ${version}, durable (fsync and synchronous_commit on); Node ${process.version}`;
  const head = [
    "# Measurements",
    "",
    "Written by `npm run measure`; run it on a quiet machine. Client and server share the machine.",
    `Here: ${machine}; ${new Date().toISOString().slice(0, 10)}; the whole run took ${Math.round((performance.now() - started) / 1000)} s.`,
    "Each number is the median of its runs; compare within a table, not across machines.",
    "",
  ];
  const text = [
    ...head,
    ...sections.flatMap(({ title, why, header, rows }) => [
      `## ${title}`,
      "",
      why,
      "",
      ...table(header, rows),
      "",
    ]),
  ];
  return `${text.join("\n").trimEnd()}\n`;
}

function table(header, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(header), line(header.map(() => "---")), ...rows.map(line)];
}
