import { PayloadInvalidError } from "./errors.js";
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
 * @throws PayloadInvalidError (or rejects with it) when the value does not fit.
 */
export function validate<Out>(
  schema: StandardSchemaV1<unknown, Out>,
  value: unknown,
  kind: string,
): Out | Promise<Out> {
  const result = schema["~standard"].validate(value);
  if ("then" in result) return result.then((settled) => outcome(settled, kind));
  return outcome(result, kind);
}

function outcome<Out>(result: SchemaResult<Out>, kind: string): Out {
  if (!result.issues) return result.value;
  const issues = result.issues.map(({ message, path = [] }) => {
    const keys = path.map((part) => (typeof part === "object" ? part.key : part));
    return Object.freeze({ path: pathText("payload", keys), message });
  });
  throw new PayloadInvalidError(kind, issues);
}
