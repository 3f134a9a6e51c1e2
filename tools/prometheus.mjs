// A Prometheus for the specs: Debian's package, loopback only, its own folder. promtool comes with it.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { startWatchdog } from "./postgres.mjs";
import { freePort, signal, waitFor } from "./processes.mjs";

const HOST = "127.0.0.1";
const placeOf = (name) =>
  ["/usr/bin", "/usr/local/bin"]
    .map((folder) => path.join(folder, name))
    .find((place) => existsSync(place));

/** The programs; undefined where they are not installed. */
export const prometheus = placeOf("prometheus");
export const promtool = placeOf("promtool");

/** Says what promtool finds: its exit code, and all that it prints. */
export function runPromtool(args, input = "") {
  if (!promtool) throw new Error("promtool is not installed: apt-get install prometheus");
  const { status, stdout, stderr } = spawnSync(promtool, args, { input, encoding: "utf8" });
  return { status, output: `${stdout}${stderr}` };
}

/** With this configuration, which is written as JSON: YAML can be that too. */
export async function startPrometheus(config) {
  if (!prometheus) throw new Error("prometheus is not installed: apt-get install prometheus");
  const folder = mkdtempSync(path.join(tmpdir(), "jobs-prometheus-"));
  const file = path.join(folder, "prometheus.yml");
  writeFileSync(file, JSON.stringify(config));
  const port = await freePort(HOST);
  const url = `http://${HOST}:${port}`;
  const args = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${path.join(folder, "data")}`,
    `--web.listen-address=${HOST}:${port}`,
    "--log.level=warn",
  ];
  const child = spawn(prometheus, args, { stdio: ["ignore", "ignore", "pipe"], cwd: folder });
  let log = "";
  let ended;
  child.stderr.setEncoding("utf8").on("data", (text) => (log = (log + text).slice(-4_000)));
  child.once("error", (error) => (ended = error.message));
  child.once("exit", (code, by) => (ended = `ended with ${by ?? code}`));
  const watchdog = startWatchdog(child.pid, folder);

  /** Its own folder goes with it. */
  async function stop() {
    watchdog.kill("SIGKILL");
    signal(child.pid, "SIGTERM");
    if (!(await waitFor(() => ended, 5_000))) signal(child.pid, "SIGKILL");
    await waitFor(() => ended, 2_000);
    rmSync(folder, { recursive: true, force: true });
  }
  const isReady = () =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  await waitFor(async () => ended || (await isReady()), 20_000);
  if (ended || !(await isReady())) {
    await stop();
    throw new Error(`prometheus did not start: ${ended ?? "no answer after 20 s"}\n${log}`);
  }
  return {
    url,
    stop,
    /** What its API answers to a path below /api/v1. */
    async api(name, parameters = {}) {
      const response = await fetch(`${url}/api/v1/${name}?${new URLSearchParams(parameters)}`);
      const { status, data, error } = await response.json();
      if (status !== "success") throw new Error(`prometheus: ${error}`);
      return data;
    },
  };
}
