/** A JSON Schema (2020-12), as OpenAPI 3.1 has them. */
export type Schema = Readonly<Record<string, unknown>>;

export const text: Schema = { type: "string" };
export const integer: Schema = { type: "integer" };
export const number: Schema = { type: "number" };
export const flag: Schema = { type: "boolean" };
export const time: Schema = { type: "string", format: "date-time" };
/** Any JSON. */
export const json: Schema = {};

export const word = (...words: readonly string[]): Schema => ({ type: "string", enum: words });
export const list = (items: Schema): Schema => ({ type: "array", items });
export const mapOf = (values: Schema): Schema => ({ type: "object", additionalProperties: values });
export const orNull = (schema: Schema): Schema => ({ anyOf: [schema, { type: "null" }] });
/** One of the schemas of the document, by name. */
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** An object with these members and no others; all are there but those that may be absent. */
export const object = (
  members: Readonly<Record<string, Schema>>,
  maybe: readonly string[] = [],
): Schema => ({
  type: "object",
  properties: members,
  required: Object.keys(members).filter((name) => !maybe.includes(name)),
  additionalProperties: false,
});

/** The same schema, with a sentence for people. */
export const about = (description: string, schema: Schema): Schema => ({ ...schema, description });
