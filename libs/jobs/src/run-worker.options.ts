import { OptionsCheck } from "./job/options-check.js";

/** Options of `runWorker`. */
export interface RunWorkerOptions {
  /** Serves `/livez`, `/readyz` and, where the app has `JobsMetricsModule`, `/metrics`; absent: no server. */
  health?: HealthOptions;
}

/** Where a worker's probes are served. */
export interface HealthOptions {
  /** 0 takes a free one. */
  port: number;
  /** Default '127.0.0.1'. */
  host?: string;
}

/** {@link RunWorkerOptions} after checking, defaults filled in. */
export interface ParsedRunWorkerOptions {
  /** Null: no server. */
  readonly health: { readonly port: number; readonly host: string } | null;
}

/** Checks the options of `runWorker`. @throws OptionsError with all problems. */
export function parseRunWorkerOptions(options: unknown): ParsedRunWorkerOptions {
  const check = new OptionsCheck("options of runWorker");
  const given = check.object("", options, ["health"]) ? options : {};
  const parsed = { health: given.health === undefined ? null : parseHealth(check, given.health) };
  check.done();
  return Object.freeze(parsed);
}

function parseHealth(check: OptionsCheck, value: unknown): ParsedRunWorkerOptions["health"] {
  if (!check.object("health", value, ["port", "host"])) return null;
  const { port, host = "127.0.0.1" } = value;
  if (port === undefined)
    check.expected("health.port", "an integer 0..65535 (is the environment variable set?)", port);
  if (typeof host !== "string" || host === "")
    check.expected("health.host", "the name or address of an interface", host);
  return Object.freeze({
    port: check.integer("health.port", port, 0, 65_535) ?? 0,
    host: host as string,
  });
}
