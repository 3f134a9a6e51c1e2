import { PayloadCheckFailedError, type PayloadIssue, PayloadInvalidError } from "./errors.js";
import { pathText } from "./json-path.js";

/** Any schema of the Standard Schema v1 contract: Zod, Valibot, ArkType and others. */
export interface StandardSchemaV1<In = unknown, Out = In> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Out> | Promise<SchemaResult<Out>>;
    readonly types?: { readonly input: In; readonly output: Out } | undefined;
  };
}

/** What a schema answers: the value it made, or its issues. */
export type SchemaResult<Out> =
  | { readonly value: Out; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One issue, as the contract has it. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What a schema accepts. */
export type SchemaInput<S> = S extends StandardSchemaV1<infer In, unknown> ? In : never;

/** What a schema gives. */
export type SchemaOutput<S> = S extends StandardSchemaV1<unknown, infer Out> ? Out : never;

/** Whether it is a Standard Schema v1; some libraries make them functions. */
export function isSchema(value: unknown): value is StandardSchemaV1 {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  const standard = (value as Partial<StandardSchemaV1>)["~standard"];
  return standard?.version === 1 && typeof standard.validate === "function";
}

/**
 * The value as the schema gives it; a promise only when the schema is asynchronous.
 * @throws PayloadInvalidError (or rejects with it) when the value does not fit, PayloadCheckFailedError when the
 * schema throws or rejects.
 */
export function validate<Out>(
  schema: StandardSchemaV1<unknown, Out>,
  value: unknown,
  kind: string,
): Out | Promise<Out> {
  const answer = attempt(kind, () => schema["~standard"].validate(value));
  if (attempt(kind, () => "then" in answer)) return later(answer as Promise<never>, kind);
  return outcome(answer as SchemaResult<Out>, kind);
}

async function later<Out>(answer: Promise<SchemaResult<Out>>, kind: string): Promise<Out> {
  let result: SchemaResult<Out>;
  try {
    result = await answer;
  } catch (error) {
    throw new PayloadCheckFailedError(kind, { cause: error });
  }
  return outcome(result, kind);
}

function outcome<Out>(result: SchemaResult<Out>, kind: string): Out {
  const issues = attempt(kind, () => issuesOf(result));
  if (issues) throw new PayloadInvalidError(kind, issues);
  return (result as { value: Out }).value;
}

function issuesOf({ issues }: SchemaResult<unknown>): PayloadIssue[] | undefined {
  return issues?.map(({ message, path }) => {
    const keys = (path ?? []).map((part) => (typeof part === "object" ? part.key : part));
    return Object.freeze({ path: pathText("payload", keys), message });
  });
}

/** What a schema throws is its failure, whatever class it is of. */
function attempt<T>(kind: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new PayloadCheckFailedError(kind, { cause: error });
  }
}
