import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { type Stage, execForm, letsIn, parseCopy, parseDockerfile } from "../support/dockerfile.js";
import { APPS, variablesOf } from "../support/environment.js";
import { written } from "../support/kustomization.js";

// What can be told of the Dockerfile without Docker; test/deploy/image.int-spec.ts repeats its steps.

const ROOT = path.resolve(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(path.join(ROOT, file), "utf8");
const { args, stages } = parseDockerfile(read("Dockerfile"));
const ignore = read(".dockerignore");
const TARGETS = ["api", "admin", "migrate", "worker"];
const stage = (name: string): Stage => {
  const found = stages.find((one) => one.name === name);
  if (!found) throw new Error(`no stage ${name}`);
  return found;
};
const all = (name: string) =>
  stages.flatMap(({ name: of, instructions }) =>
    instructions.filter((one) => one.name === name).map(({ text }) => ({ of, text })),
  );
/** The last one that holds for a stage, its own or that of what it stands on. */
const last = (of: string, name: string): string | undefined => {
  const found = stages.find((one) => one.name === of);
  return (
    found &&
    (found.instructions.findLast((one) => one.name === name)?.text ?? last(found.from, name))
  );
};

describe("the Dockerfile", () => {
  it("has a target for each app and the migration, that adds a command and nothing else", () => {
    const targets = stages.filter(({ instructions }) =>
      instructions.some((one) => one.name === "CMD"),
    );
    expect(targets.map(({ name }) => name)).toEqual(TARGETS);
    for (const { from, instructions } of targets) {
      expect(from).toBe("runtime");
      expect(["CMD", "EXPOSE"]).toEqual(
        expect.arrayContaining(instructions.map(({ name }) => name)),
      );
    }
  });

  it.each(TARGETS)("%s: Node.js is the first process, not npm and not a shell", (target) => {
    expect(execForm(last(target, "ENTRYPOINT")!)).toEqual(["node"]);
    const [file] = execForm(last(target, "CMD")!)!;
    // the build has made it, or git has it
    expect(existsSync(path.join(ROOT, file!))).toBe(true);
    expect(last(target, "STOPSIGNAL")).toBe("SIGTERM");
  });

  it.each(TARGETS)(
    "%s: runs as the user that the manifests name, and that is not root",
    (target) => {
      const pods = [...written("base"), ...written("migrate")].flatMap((one) =>
        one.kind === "Deployment" || one.kind === "Job" ? [one.spec!.template.spec!] : [],
      );
      const pod = pods.find(
        ({ containers }) => containers[0]!.image === `nestjs-pg-jobs-${target}`,
      );
      const { runAsUser, runAsGroup } = pod!.securityContext!;
      expect(last(target, "USER")).toBe(`${runAsUser}:${runAsGroup}`);
      expect(runAsUser).toBeGreaterThan(0);
    },
  );

  it.each(APPS)("%s: exposes the port that its code listens on", (app) => {
    const [variable] = variablesOf(app).filter(({ port }) => port !== undefined);
    expect(last(app, "EXPOSE")).toBe(String(variable!.port));
  });

  it("copies what is there, and what .dockerignore lets in", () => {
    const copies = all("COPY").map(({ text }) => parseCopy(text));
    const fromContext = copies.filter(({ from }) => from === undefined);
    expect(fromContext.length).toBeGreaterThan(5);
    for (const source of fromContext.flatMap(({ sources }) => sources)) {
      expect([source, existsSync(path.join(ROOT, source))]).toEqual([source, true]);
      expect([source, letsIn(ignore, source)]).toEqual([source, true]);
    }
    const names = stages.map(({ name }) => name);
    for (const { from, sources } of copies.filter((one) => one.from !== undefined)) {
      expect(names).toContain(from);
      for (const source of sources) {
        const here = path.join(ROOT, path.posix.relative("/app", source));
        expect([source, existsSync(here)]).toEqual([source, true]);
      }
    }
  });

  it("copies each library that there is", () => {
    const libs = readdirSync(path.join(ROOT, "libs"));
    const sources = all("COPY").flatMap(({ text }) => parseCopy(text).sources);
    for (const lib of libs) {
      expect(sources).toContain(`libs/${lib}/package.json`);
      expect(sources).toContain(`/app/libs/${lib}/dist`);
    }
  });

  it("runs npm ci without scripts, and the build of package.json", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const runs = all("RUN");
    expect(runs.filter(({ text }) => !text.startsWith("npm ci "))).toEqual([
      { of: "build", text: scripts.build },
    ]);
    for (const { text } of runs.filter((one) => one.text.startsWith("npm")))
      expect(text).toContain(" --ignore-scripts ");
    const [production] = runs.filter(({ of }) => of === "production");
    expect(production!.text).toContain("--omit=dev");
  });

  it("keeps nothing of the build but what it has built", () => {
    const fromBuild = stage("runtime")
      .instructions.filter(({ name }) => name === "COPY")
      .map(({ text }) => parseCopy(text))
      .filter(({ from }) => from === "build");
    for (const { sources } of fromBuild)
      for (const source of sources) expect(source).toMatch(/\/dist(\/apps)?$/);
    expect(stage("runtime").instructions.filter(({ name }) => name === "RUN")).toEqual([]);
  });

  it("has the newer Node.js that the whole suite is run on", () => {
    const version = /^(\d+\.\d+\.\d+)-bookworm-slim$/.exec(args.NODE!)?.[1];
    expect(version).toBe(/NEWER_NODE = "([\d.]+)"/.exec(read("tools/matrix.mjs"))![1]);
  });
});

describe(".dockerignore", () => {
  it.each([
    ".git/config",
    ".data/pg/PG_VERSION",
    ".env",
    "apps/api/.env.local",
    "node_modules/pg/package.json",
    "libs/jobs/dist/index.js",
    "libs/jobs/node_modules/x/index.js",
    "dist/apps/api/main.js",
    "test/setup-env.mjs",
    "tools/start.mjs",
    "deploy/kubernetes/base/kustomization.yaml",
  ])("keeps out %s", (file) => expect(letsIn(ignore, file)).toBe(false));

  it.each([
    "package-lock.json",
    "tools/build.mjs",
    "libs/jobs/bin/pg-jobs.mjs",
    "libs/jobs/src/worker/renewer.thread.mjs",
    "apps/worker/src/main.ts",
    "apps/worker/tsconfig.app.json",
  ])("lets in %s", (file) => expect(letsIn(ignore, file)).toBe(true));
});
