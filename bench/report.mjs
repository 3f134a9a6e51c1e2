// The published table: medians, how far the runs lay apart, and ratios.
import { FIGURES } from "./figures.mjs";
import { spread } from "./numbers.mjs";
import { PEERS, REAL_PEERS } from "./peers/index.mjs";

/** The whole page, in Markdown. */
export function report({ about, workloads, medians, judged, problems }) {
  const { machine, node, postgres, redis, runs, complete, minutes, date, versions, commit } = about;
  const kind = complete ? "all of it" : "a part of it, for a first look";
  return [
    "# Benchmark",
    "",
    `Written by \`npm run bench\`: ${kind}. ${date}, commit ${commit ?? "unknown"}, ${machine}, PostgreSQL ${postgres} (fsync and synchronous_commit on, which claims of ours and of the bare loop turn off for themselves; shared_buffers 1GB, max_wal_size 4GB), Node ${node}${redis ? ", Redis with appendonly everysec" : ", no Redis"}; ${versions.join(", ")}; ${minutes} minutes.`,
    `Client and servers share the machine; compare within a table, not across machines. Medians of ${runs} ${runs === 1 ? "run" : "runs"}, the order of peers rotated; in parentheses the least and the most. Every run has checked by the peer's own tables that each job is there; where jobs run, by the handlers too, that each ran and was settled exactly once.`,
    "",
    "## What must be reached",
    "",
    ...rowsTable(judged, workloads),
    "",
    ...lackingRows(judged, workloads),
    ...(complete
      ? [
          "Of rows that were missed before, docs/adr/0008-rows-that-are-missed.md says what holds them, and what was tried.",
          "",
        ]
      : []),
    ...(problems.length > 0
      ? ["## Runs that went wrong", "", ...problems.map(problemLine), ""]
      : []),
    "## All figures",
    "",
    ...workloads.flatMap((workload) => workloadSection(workload, medians, runs)),
  ].join("\n");
}

/** The rows and their state alone. */
export function rowsTable(judged, workloads) {
  const titles = new Map(workloads.map(({ name, title }) => [name, title]));
  const head = ["what", "figure", "ours", "against", "ratio", "at least / at most", "state"];
  return table(
    head,
    judged
      .filter(({ workload }) => titles.has(workload))
      .map((row) => [titles.get(row.workload), FIGURES[row.figure].title, ...verdict(row)]),
  );
}

function lackingRows(judged, workloads) {
  const names = new Set(workloads.map(({ name }) => name));
  const lacking = new Set(judged.map(({ workload }) => workload).filter((one) => !names.has(one)));
  if (lacking.size === 0) return [];
  return [`Without the rows of ${[...lacking].join(", ")} (bench/rows.mjs).`, ""];
}

function verdict(row) {
  const { figure, against, atLeast, atMost, state, value, base, found } = row;
  const { format } = FIGURES[figure];
  const unit = against ? " ×" : "";
  const limit = against ? String(atLeast ?? atMost) : format(atLeast ?? atMost);
  const bound = `${atLeast === undefined ? "≤" : "≥"} ${limit}${unit}`;
  const mark = ["missed", "incomplete"].includes(state) ? `**${state}**` : state;
  if (value === undefined) return ["–", against?.called ?? "", "–", bound, mark];
  const lacking = against?.peers?.some((peer) => !base.among.includes(peer));
  const basis = against
    ? `${against.called}${lacking ? " of those measured" : ""}${base.by && against.peers.length > 1 ? `, ${PEERS[base.by].title}` : ""}: ${format(base.value)}`
    : "";
  return [format(value), basis, against ? `${found.toFixed(2)} ×` : "", bound, mark];
}

function workloadSection({ title, note, peers, name, rounds, leftOut }, medians, runs) {
  const figures = Object.keys(FIGURES).filter((figure) =>
    peers.some((peer) => medians.of(name, peer, figure) !== undefined),
  );
  if (figures.length === 0) return [];
  const [main] = figures;
  const rows = peers
    .filter((peer) => medians.of(name, peer, main) !== undefined)
    .map((peer) => [
      PEERS[peer].title,
      ...figures.map((figure) =>
        cell(medians.all(name, peer, figure), medians.of(name, peer, figure), figure),
      ),
      ratioToOurs(medians, name, peer, main),
    ]);
  const head = ["", ...figures.map((figure) => FIGURES[figure].title), "of ours"];
  const notes = [note, fewer(rounds, runs), absent(peers, leftOut)].filter(Boolean).join(" ");
  return [`### ${title}`, "", ...(notes ? [notes, ""] : []), ...table(head, rows), ""];
}

const fewer = (rounds, runs) =>
  rounds < runs ? `${rounds} ${rounds === 1 ? "run" : "runs"} only.` : undefined;

/** Who does not take part where others do. */
function absent(peers, why) {
  const [there, left] = [true, false].map((takesPart) =>
    REAL_PEERS.filter((peer) => peers.includes(peer) === takesPart),
  );
  if (there.length === 0 || left.length === 0) return undefined;
  return `Without ${left.map((peer) => PEERS[peer].title).join(" and ")}: ${why}.`;
}

function cell(values, middle, figure) {
  if (middle === undefined) return "–";
  const { format } = FIGURES[figure];
  const { least, most } = spread(values);
  return values.length === 1
    ? format(middle)
    : `${format(middle)} (${format(least)}–${format(most)})`;
}

function ratioToOurs(medians, workload, peer, figure) {
  const ours = medians.of(workload, "ours", figure);
  return ours === undefined ? "–" : `${(medians.of(workload, peer, figure) / ours).toFixed(2)} ×`;
}

const problemLine = ({ workload, peer, round, problem }) =>
  `- ${workload}, ${PEERS[peer].title}, run ${round + 1}: ${problem.split("\n")[0]}`;

function table(head, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)];
}
