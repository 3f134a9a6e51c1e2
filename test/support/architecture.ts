import path from "node:path";
import type { SourceFile } from "./source-file.js";

const JOBS = "libs/jobs/src";

/** Which folders of ours a folder of the runtime may import; "any" for whatever puts the others together. */
const MAY_IMPORT: Record<string, readonly string[] | "any"> = {
  job: [],
  pg: [],
  store: ["job", "pg"],
  observe: ["job"],
  handler: ["job"],
  queue: ["job", "pg", "store", "observe"],
  worker: ["job", "pg", "store", "handler", "observe"],
  upkeep: ["job", "pg", "store", "observe"],
  terminus: ["queue", "observe", "job", "store"],
  prometheus: ["queue", "observe", "job", "store"],
  otel: ["queue", "observe", "job", "store"],
  typeorm: ["queue", "observe", "job", "store"],
  testing: "any",
  cli: "any",
  "jobs.options.ts": ["job"],
  "jobs.tokens.ts": [],
  "jobs.root.ts": "any",
  "index.ts": "any",
  "jobs.module.ts": "any",
  "jobs-worker.module.ts": "any",
  "run-worker.ts": "any",
  "run-worker.options.ts": ["job"],
  "worker-health.ts": "any",
  "release.ts": [],
  "service-name.ts": [],
};
const WITHOUT_NEST = ["queue", "store", "job", "pg", "worker", "upkeep"];
const WITH_SQL = ["store", "pg"];
/** Entry points of our packages: what their `exports` name. */
const ENTRY_POINTS =
  /^nestjs-pg-jobs(\/(terminus|testing|typeorm|prometheus|otel))?$|^nestjs-pg-jobs-(admin|samples)$/;
const SQL =
  /\bselect\b[^]+\bfrom\b|\binsert\s+into\b|\bupdate\s+\S+\s+(\w\s+)?set\b|\bdelete\s+from\b|\b(create|alter|drop)\s+(table|index|schema|function|view)\b/i;

/** What these files do that the architecture forbids, one sentence each. */
export function violations(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => [
    ...ofPackages(file),
    ...(file.path.startsWith(`${JOBS}/`) ? ofRuntime(file) : []),
    ...ofEnvironment(file),
  ]);
}

/** The folder of the runtime that a path lies in; its root files stand for themselves. */
const placeOf = (file: string): string => path.posix.relative(JOBS, file).split("/")[0]!;

function ofRuntime({ path: file, imports, texts, exportsAll }: SourceFile): string[] {
  const place = placeOf(file);
  const allowed = MAY_IMPORT[place];
  const found: string[] = [];
  if (allowed === undefined) found.push(`${file}: "${place}" is not in the import table`);
  for (const name of imports) {
    if (name.startsWith(".")) {
      const target = path.posix.join(path.posix.dirname(file), name).replace(/\.js$/, ".ts");
      const other = placeOf(target);
      if (target === `${JOBS}/index.ts`) found.push(`${file}: imports the root index`);
      else if (allowed !== "any" && other !== place && !allowed?.includes(other))
        found.push(`${file}: ${place} may not import ${other}`);
    } else if (name.startsWith("@nestjs/") && WITHOUT_NEST.includes(place)) {
      found.push(`${file}: ${place} may not import ${name}`);
    }
  }
  if (!WITH_SQL.includes(place) && texts.some((text) => SQL.test(text)))
    found.push(`${file}: SQL outside store/`);
  if (exportsAll && path.posix.basename(file) === "index.ts")
    found.push(`${file}: names nothing in an export *`);
  return found;
}

/** Packages meet at their entry points, ours and those of Nest. */
function ofPackages({ path: file, imports }: SourceFile): string[] {
  const own = file.split("/").slice(0, 2).join("/");
  return imports.flatMap((name) => {
    if (name.startsWith(".")) {
      const target = path.posix.join(path.posix.dirname(file), name);
      return target.startsWith(`${own}/`) ? [] : [`${file}: reaches out of ${own} for ${name}`];
    }
    if (name.startsWith("nestjs-pg-jobs") && !ENTRY_POINTS.test(name))
      return [`${file}: ${name} is no entry point`];
    if (/^@nestjs\/[^/]+\//.test(name)) return [`${file}: ${name} is inside of Nest`];
    return [];
  });
}

/** The environment is read in one place of each app, and by the command line. */
function ofEnvironment({ path: file, readsEnvironment }: SourceFile): string[] {
  const allowed = /^apps\/[^/]+\/src\/config\.ts$|^libs\/jobs\/src\/cli\//;
  return readsEnvironment && !allowed.test(file) ? [`${file}: reads process.env`] : [];
}
