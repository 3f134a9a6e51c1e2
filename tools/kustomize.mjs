// The command that renders deploy/kubernetes. Run by itself it says whether there is one, for .ci/run.
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";

/** What deploy/kubernetes needs. */
const OLDEST = [5, 1];

// A home of nobody's: what people have configured for their clusters is not read, nor anything written there.
export function runKustomize(tool, args) {
  const { status, stdout, stderr, error } = spawnSync(tool, args, {
    env: { PATH: process.env.PATH, HOME: tmpdir(), KUBECONFIG: "/dev/null" },
    encoding: "utf8",
    timeout: 60_000,
  });
  if (status === 0) return stdout;
  throw new Error(`${tool} ${args.join(" ")} failed: ${stderr || error?.message}`);
}

function versionOf(tool, args, pattern) {
  try {
    const found = pattern.exec(runKustomize(tool, args));
    return found ? [Number(found[1]), Number(found[2])] : [0, 0];
  } catch {
    return undefined;
  }
}

/** kustomize, or a kubectl that has it: `command` where one is new enough, and else why there is none. */
export function findKustomize() {
  const tools = [
    ["kustomize", versionOf("kustomize", ["version"], /\bv(\d+)\.(\d+)/), ["kustomize", "build"]],
    [
      "kubectl",
      versionOf("kubectl", ["version", "--client"], /^Kustomize Version: v(\d+)\.(\d+)/m),
      ["kubectl", "kustomize"],
    ],
  ];
  const there = tools.filter(([, version]) => version);
  const fit = there.find(
    ([, [major, minor]]) => major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]),
  );
  if (fit) return { command: fit[2] };
  const old = there.map(([tool]) => tool).join(" or ");
  return {
    missing: old
      ? `what ${old} has is older than kustomize ${OLDEST.join(".")}`
      : "neither kustomize nor kubectl is installed",
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { missing } = findKustomize();
  if (missing) console.log(missing);
}
