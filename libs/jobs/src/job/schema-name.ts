const SCHEMA = /^(?!pg_)[a-z_][a-z0-9_]{0,62}$/;

/** Whether a schema may be called so: it needs no quotes anywhere, and PostgreSQL keeps `pg_` for itself. */
export const isSchemaName = (text: unknown): text is string =>
  typeof text === "string" && SCHEMA.test(text);

/** What {@link isSchemaName} asks for, in words. */
export const SCHEMA_NAME = "1..63 of a-z, 0-9 and _, not beginning with a digit or pg_";
