import type { JobDefaults, ParsedDefaults } from "./defaults.js";
import { DEFAULTS_KEYS, parseDefaults } from "./defaults.js";
import { LIMIT_KEYS, type LimitRule, type Limits, parseLimits } from "./limit.js";
import { describe, isName, OptionsCheck } from "./options-check.js";
import type { SchemaInput, SchemaOutput, StandardSchemaV1 } from "./standard-schema.js";
import { isSchema } from "./standard-schema.js";

export type { ErrorClass, JobDefaults } from "./defaults.js";

// by name, so that two copies of the package know each other's definitions
const DEFINITION: unique symbol = Symbol.for("nestjs-pg-jobs.definition");

/** The options of {@link defineJob}. */
export interface DefinitionOptions<
  S extends StandardSchemaV1 | undefined = StandardSchemaV1 | undefined,
>
  extends JobDefaults, Limits {
  /** The queue its jobs wait in unless the call says otherwise; default `'default'`. */
  queue?: string;
  /** Higher runs first; -100..100, default 0. */
  priority?: number;
  /** The schema of the payload, checked when enqueued and when run; absent: any JSON. */
  payload?: S;
}

/** The typed contract of one kind of job: `In` is enqueued, the handler gets `Out` and returns `R`. */
export interface Definition<In = unknown, Out = unknown, R = unknown> extends ParsedDefaults {
  /** The stable name of the kind. */
  readonly kind: string;
  /** The queue its jobs wait in unless the call says otherwise. */
  readonly queue: string;
  /** Higher runs first. */
  readonly priority: number;
  /** What bounds its jobs in its queue; null: nothing was said. */
  readonly limits: readonly LimitRule[] | null;
  /** The schema of the payload; null: any JSON. */
  readonly payload: StandardSchemaV1<In, Out> | null;
  /** Carries the types; its value means nothing. */
  readonly [DEFINITION]: { readonly in: In; readonly out: Out; readonly result: R };
}

/** What the handler of a definition gets. */
export type PayloadOf<D> = D extends Definition<unknown, infer Out, unknown> ? Out : unknown;

/** What is enqueued for a definition. */
export type InputOf<D> = D extends Definition<infer In, unknown, unknown> ? In : unknown;

/** What the handler of a definition returns. */
export type ResultOf<D> = D extends Definition<unknown, unknown, infer R> ? R : unknown;

const KEYS = ["queue", "priority", "payload", ...LIMIT_KEYS, ...DEFAULTS_KEYS];

/**
 * Declares a kind of job, with a schema (types inferred) or with types alone:
 * `defineJob<Payload, Result>(kind)`, `defineJob<typeof schema, Result>(kind, { payload: schema })`.
 * @param kind the stable name, 1..64 characters without control characters.
 * @throws OptionsError with all problems of its options.
 */
export function defineJob<S extends StandardSchemaV1, R = unknown>(
  kind: string,
  options: DefinitionOptions<S> & { payload: S },
): Definition<SchemaInput<S>, SchemaOutput<S>, R>;
export function defineJob<P = unknown, R = unknown>(
  kind: string,
  options?: DefinitionOptions<undefined>,
): Definition<P, P, R>;
export function defineJob(kind: string, options: DefinitionOptions = {}): Definition {
  const check = new OptionsCheck(`definition of job ${describe(kind)}`);
  if (!isName(kind)) check.expected("kind", "1..64 characters without control characters", kind);
  const given: Record<string, unknown> = check.object("", options, KEYS) ? options : {};
  const payload = given.payload ?? null;
  if (payload !== null && !isSchema(payload)) {
    check.expected("payload", "a Standard Schema (Zod, Valibot, ArkType …)", payload);
  }
  const definition = {
    kind,
    queue: check.name("queue", given.queue) ?? "default",
    priority: check.integer("priority", given.priority, -100, 100) ?? 0,
    limits: parseLimits(check, given),
    payload: payload as StandardSchemaV1 | null,
    ...parseDefaults(check, given),
  };
  check.done();
  Object.defineProperty(definition, DEFINITION, { value: true });
  return Object.freeze(definition) as Definition;
}

/** Whether it was made by {@link defineJob}, of any copy of this package. */
export function isDefinition(value: unknown): value is Definition {
  return typeof value === "object" && value !== null && DEFINITION in value;
}

/** The definition itself, or one without schema in queue `'default'` for a string. @throws OptionsError */
export function resolve(job: Definition | string): Definition {
  return isDefinition(job) ? job : defineJob(job);
}

/** The kind of a definition or string. */
export function nameOf(job: Definition | string): string {
  return typeof job === "string" ? job : job.kind;
}
