import { readFileSync } from "node:fs";
import path from "node:path";

const ROOT = path.resolve(import.meta.dirname, "../..");

/** The sample apps. */
export const APPS = ["api", "worker", "admin"] as const;
export type AppName = (typeof APPS)[number];

/** A variable of the environment that an app reads. */
export interface Variable {
  name: string;
  /** Without it the app does not start. */
  required: boolean;
  /** The default of a port. */
  port?: number;
}

/** What the config.ts of an app reads of the environment. */
export function variablesOf(app: AppName): Variable[] {
  const text = readFileSync(path.join(ROOT, `apps/${app}/src/config.ts`), "utf8");
  return [...text.matchAll(/^ {6}([A-Z][A-Z0-9_]*): field\.(\w+)\((\d*)(.*)/gm)].map(
    ([, name, field, number, rest]) => ({
      name: name!,
      required: ["databaseUrl", "secret"].includes(field!) && !rest!.includes(".optional("),
      ...(field === "port" ? { port: Number(number) } : {}),
    }),
  );
}
