import { existsSync } from "node:fs";
import path from "node:path";
import { violations } from "./support/architecture.js";
import { parseSource, readSources } from "./support/source-file.js";

const root = path.resolve(import.meta.dirname, "..");
const projects = [
  "apps/api",
  "apps/worker",
  "apps/admin",
  "libs/jobs",
  "libs/jobs-admin",
  "libs/samples",
];

describe("the architecture", () => {
  it("is kept by every source file", () => {
    const files = readSources(
      ...projects
        .map((project) => `${project}/src`)
        .filter((src) => existsSync(path.join(root, src))),
    );
    expect(files.length).toBeGreaterThan(80);
    expect(violations(files)).toEqual([]);
  });

  it.each([
    ["libs/jobs/src/job/x.ts", 'import { a } from "../pg/sql.js";', "job may not import pg"],
    ["libs/jobs/src/pg/x.ts", 'export type { A } from "../job/a.js";', "pg may not import job"],
    ["libs/jobs/src/store/reads/x.ts", 'import "../../queue/a.js";', "store may not import queue"],
    ["libs/jobs/src/queue/x.ts", 'await import("../worker/a.js");', "queue may not import worker"],
    [
      "libs/jobs/src/worker/x.ts",
      'let a: import("../queue/a.js").A;',
      "worker may not import queue",
    ],
    ["libs/jobs/src/handler/x.ts", 'import "../store/a.js";', "handler may not import store"],
    ["libs/jobs/src/jobs.options.ts", 'import "./pg/a.js";', "jobs.options.ts may not import pg"],
    [
      "libs/jobs/src/observe/x.ts",
      'import "../jobs.options.js";',
      "may not import jobs.options.ts",
    ],
    [
      "libs/jobs/src/worker/x.ts",
      'import { Logger } from "@nestjs/common";',
      "may not import @nestjs/common",
    ],
    ["libs/jobs/src/newcomer/x.ts", "", '"newcomer" is not in the import table'],
    ["libs/jobs/src/cli/x.ts", 'import "../index.js";', "imports the root index"],
    [
      "libs/jobs/src/handler/x.ts",
      'import "@nestjs/core/injector/module.js";',
      "is inside of Nest",
    ],
    [
      "libs/jobs/src/queue/x.ts",
      "const sql = `select 1\n from ${jobs}.job`;",
      "SQL outside store/",
    ],
    ["libs/jobs/src/worker/x.ts", 'run("update jobs.job set a = 1");', "SQL outside store/"],
    ["libs/jobs/src/index.ts", 'export * from "./job/a.js";', "export *"],
    ["libs/jobs/src/queue/x.ts", "const a = process.env.A;", "reads process.env"],
    ["apps/api/src/main.ts", "const { PORT } = process.env;", "reads process.env"],
    ["apps/api/src/x.ts", 'import "nestjs-pg-jobs/dist/index.js";', "is no entry point"],
    [
      "apps/worker/src/x.ts",
      'import "../../../libs/jobs/src/index.js";',
      "reaches out of apps/worker",
    ],
    ["apps/worker/src/x.ts", 'import "../../api/src/config.js";', "reaches out of apps/worker"],
    [
      "libs/jobs-admin/src/x.ts",
      'import "../../jobs/src/index.js";',
      "reaches out of libs/jobs-admin",
    ],
  ])("a violation is found: %s with %s", (file, text, complaint) => {
    const found = violations([parseSource(file, text)]);
    expect(found).toEqual([expect.stringContaining(complaint)]);
    expect(found[0]).toContain(file);
  });

  it.each([
    ["libs/jobs/src/worker/x.ts", 'import "../store/a.js"; import "./b.js"; import pg from "pg";'],
    ["libs/jobs/src/jobs.module.ts", 'import "./worker/a.js"; import "@nestjs/common";'],
    ["libs/jobs/src/store/x.ts", "const sql = `select 1 from ${jobs}.job`;"],
    ["libs/jobs/src/queue/x.ts", "// select first, then insert into the map from there\nlet a;"],
    ["libs/jobs/src/terminus/index.ts", 'export { a } from "./a.js";'],
    ["apps/api/src/config.ts", "export const port = process.env.PORT;"],
    ["apps/api/src/x.ts", 'import "nestjs-pg-jobs/terminus"; import "nestjs-pg-jobs-samples";'],
  ])("what is allowed is let be: %s with %s", (file, text) => {
    expect(violations([parseSource(file, text)])).toEqual([]);
  });
});
