import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import path from "node:path";

/** A line of a Dockerfile. */
export interface Instruction {
  name: string;
  text: string;
}

export interface Stage {
  name: string;
  /** Another stage, or an image. */
  from: string;
  instructions: Instruction[];
}

/** What a COPY takes, from the context or from another stage, and where to. */
export interface Copy {
  from: string | undefined;
  sources: string[];
  target: string;
}

/** Its stages, and the arguments before them. Lines that go on are not understood, and refused. */
export function parseDockerfile(text: string): { args: Record<string, string>; stages: Stage[] } {
  const args: Record<string, string> = {};
  const stages: Stage[] = [];
  for (const line of text.split("\n").filter((one) => one !== "" && !one.startsWith("#"))) {
    const [, name, rest] = /^([A-Z]+) (.*[^\\])$/.exec(line) ?? [];
    if (name === undefined || rest === undefined) throw new Error(`not understood: ${line}`);
    const known = rest.replaceAll(/\$\{(\w+)\}/g, (_, arg: string) => args[arg]!);
    if (name === "FROM") {
      const [from, as, stage] = known.split(" ");
      if (as !== "AS" || !stage) throw new Error(`a stage without a name: ${line}`);
      stages.push({ name: stage, from: from!, instructions: [] });
    } else if (stages.length > 0) {
      stages.at(-1)!.instructions.push({ name, text: known });
    } else {
      const [key, value] = known.split("=");
      args[key!] = value!;
    }
  }
  return { args, stages };
}

export function parseCopy(text: string): Copy {
  const words = text.split(" ");
  const from = /^--from=(.+)$/.exec(words[0]!)?.[1];
  const paths = from === undefined ? words : words.slice(1);
  if (paths.length < 2 || paths.some((one) => one.startsWith("--")))
    throw new Error(`not understood: COPY ${text}`);
  return { from, sources: paths.slice(0, -1), target: paths.at(-1)! };
}

/** The words of an instruction in exec form; undefined when it is one for a shell. */
export function execForm(text: string): string[] | undefined {
  if (!text.startsWith("[")) return undefined;
  return JSON.parse(text) as string[];
}

/** Whether a .dockerignore lets a file of the context in: the last pattern that fits it, or a folder above it, decides. */
export function letsIn(ignore: string, file: string): boolean {
  const parents = file.split("/").map((_, n, all) => all.slice(0, n + 1).join("/"));
  let left = true;
  for (const line of ignore.split("\n").filter((one) => one !== "" && !one.startsWith("#"))) {
    const [, except, pattern] = /^(!?)(.+)$/.exec(line)!;
    const fits = new RegExp(
      `^${pattern!
        .replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`)
        .replaceAll("**/", "\0")
        .replaceAll("*", "[^/]*")
        .replaceAll("\0", "(?:.*/)?")}$`,
    );
    if (parents.some((one) => fits.test(one))) left = except === "!";
  }
  return left;
}

/** Builds stages as folders: FROM, WORKDIR, COPY and RUN as they stand, on this machine in place of the base image. */
export class FolderBuild {
  readonly #stages: readonly Stage[];

  constructor(
    dockerfile: string,
    /** Where stages go, a folder each. */
    private readonly folder: string,
    /** What `docker build` is given. */
    private readonly context: string,
    /** The /app of stages that are there already. */
    private readonly built: Readonly<Record<string, string>>,
  ) {
    this.#stages = parseDockerfile(dockerfile).stages;
  }

  /** The working folder of a stage. */
  build(name: string): string {
    const stage = this.#stages.find((one) => one.name === name);
    if (!stage) throw new Error(`no stage ${name}`);
    const root = path.join(this.folder, name);
    const place = (at: string, file: string) => path.join(root, path.posix.resolve(at, file));
    let at = "/";
    if (this.#stages.some((one) => one.name === stage.from)) {
      this.build(stage.from);
      copy(path.join(this.folder, stage.from), root);
      at = this.#workdir(stage.from);
    }
    mkdirSync(root, { recursive: true });
    for (const { name: instruction, text } of stage.instructions) {
      if (instruction === "WORKDIR") mkdirSync(place("/", (at = text)), { recursive: true });
      if (instruction === "RUN") run(text, place(at, "."));
      if (instruction === "COPY") this.#copy(parseCopy(text), (file) => place(at, file));
    }
    return place(at, ".");
  }

  #copy({ from, sources, target }: Copy, place: (file: string) => string): void {
    const into = target.endsWith("/") || sources.length > 1;
    for (const source of sources) {
      const found = this.#find(from, source);
      const to = into && !isFolder(found) ? path.join(target, path.basename(source)) : target;
      copy(found, place(to));
    }
  }

  #find(from: string | undefined, source: string): string {
    if (from === undefined) return path.join(this.context, source);
    const built = this.built[from];
    if (built !== undefined) return path.join(built, path.posix.relative("/app", source));
    if (!existsSync(path.join(this.folder, from))) this.build(from);
    return path.join(this.folder, from, source);
  }

  #workdir(name: string): string {
    const stage = this.#stages.find((one) => one.name === name);
    if (!stage) return "/";
    const own = stage.instructions.findLast((one) => one.name === "WORKDIR");
    return own?.text ?? this.#workdir(stage.from);
  }
}

const isFolder = (file: string): boolean => {
  try {
    return readdirSync(file) !== undefined;
  } catch {
    return false;
  }
};

/** Links stay what they are: npm's lead from node_modules to libs. */
function copy(from: string, to: string): void {
  mkdirSync(path.dirname(to), { recursive: true });
  cpSync(from, to, { recursive: true, verbatimSymlinks: true });
}

function run(command: string, cwd: string): void {
  const { status, stderr, error } = spawnSync("sh", ["-c", command], {
    cwd,
    env: environment(),
    encoding: "utf8",
    timeout: 120_000,
  });
  if (status !== 0) throw new Error(`${command} failed: ${stderr || error?.message}`);
}

/** Nothing of the npm that runs us; what has been fetched before is not fetched again. */
function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^npm_/i.test(name) || /^npm_config_(cache|registry|userconfig)$/i.test(name),
  );
  return { ...Object.fromEntries(kept), npm_config_prefer_offline: "true" };
}
