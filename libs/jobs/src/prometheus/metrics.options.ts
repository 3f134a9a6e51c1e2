import {
  type OpenMetricsContentType,
  type PrometheusContentType,
  type Registry,
  register,
} from "prom-client";
import { OptionsCheck } from "../job/options-check.js";

/** A registry of `prom-client`, of either text format. */
export type AnyRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>;

/** The options of `JobsMetricsModule.forRoot`. */
export interface JobsMetricsOptions {
  /** Where the metrics are registered; default `prom-client`'s own registry. Two apps of one process need two. */
  registry?: AnyRegistry;
  /** What every name begins with; default `'jobs_'`. */
  prefix?: string;
  /**
   * What the label `schema` says, which all metrics of jobs and queues have; default the schema of `JobsModule.forRoot`. Where
   * one Prometheus scrapes two databases whose schemas have one name, give each another one.
   */
  schemaLabel?: string;
  /**
   * Whether what the tables tell of all queues is served too, which costs at most one set of queries per 10 s and process;
   * default true. With many replicas let one or two of them say it.
   */
  database?: boolean;
  /**
   * The most queues, and the most pairs of queue and kind, that get label values of their own; 1..10,000, default 200. What
   * comes later is counted under `other`, and a warning says so.
   */
  maxLabels?: number;
}

/** {@link JobsMetricsOptions} after checking, defaults filled in. */
export interface ParsedMetricsOptions {
  readonly registry: AnyRegistry;
  readonly prefix: string;
  /** Undefined: that of `JobsModule.forRoot`. */
  readonly schemaLabel: string | undefined;
  readonly database: boolean;
  readonly maxLabels: number;
}

const KEYS = ["registry", "prefix", "schemaLabel", "database", "maxLabels"];
const PREFIX = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Checks the options of `JobsMetricsModule.forRoot`. @throws OptionsError with all problems. */
export function parseMetricsOptions(options: unknown): ParsedMetricsOptions {
  const check = new OptionsCheck("options of JobsMetricsModule.forRoot");
  const given = check.object("", options, KEYS) ? options : {};
  const { registry = register, prefix = "jobs_" } = given;
  if (!isRegistry(registry)) check.expected("registry", "a Registry of prom-client", registry);
  if (typeof prefix !== "string" || !PREFIX.test(prefix))
    check.expected("prefix", "letters, digits and _, of which no digit comes first", prefix);
  const parsed = {
    registry: registry as AnyRegistry,
    prefix: prefix as string,
    schemaLabel: check.name("schemaLabel", given.schemaLabel),
    database: check.flag("database", given.database) ?? true,
    maxLabels: check.integer("maxLabels", given.maxLabels, 1, 10_000) ?? 200,
  };
  check.done();
  return Object.freeze(parsed);
}

function isRegistry(value: unknown): boolean {
  const registry = value as Partial<AnyRegistry> | null;
  return ["registerMetric", "removeSingleMetric", "metrics"].every(
    (name) => typeof registry?.[name as keyof AnyRegistry] === "function",
  );
}
