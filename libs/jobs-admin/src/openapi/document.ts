import { type Operation, isDeed } from "../operation/operation.js";
import type { Field } from "../request/field.js";
import { type Schema, about, integer, list, ref, text } from "./schema.js";

/** The version of this API. */
const VERSION = "0.2.0";

/** Codes that any route may answer, by status. */
const COMMON: Readonly<Record<number, readonly string[]>> = {
  400: [
    "PATH_INVALID",
    "QUERY_INVALID",
    "BODY_INVALID",
    "BAD_REQUEST",
    "OPTIONS_INVALID",
    "NOT_IN_ENCODING",
  ],
  401: ["UNAUTHORIZED"],
  403: ["FORBIDDEN", "ROLE_TOO_WEAK", "CROSS_SITE", "LOOPBACK_ONLY"],
  413: ["PAYLOAD_TOO_LARGE"],
  415: ["UNSUPPORTED_MEDIA_TYPE"],
  429: ["TOO_MANY_FAILURES"],
  500: ["INTERNAL"],
  503: ["DATABASE_UNAVAILABLE", "DATABASE_REFUSED", "DATABASE_TOO_SLOW", "SCHEMA_NOT_READY"],
};

const Problem: Schema = {
  type: "object",
  description:
    "RFC 9457. `code` is stable, `detail` is for people; other members belong to the code.",
  properties: {
    type: text,
    title: text,
    status: integer,
    code: text,
    detail: text,
    problems: about("Each thing that is wrong with the request.", list(text)),
  },
  required: ["type", "title", "status", "code", "detail"],
};

/** The OpenAPI 3.1 document of these operations. */
export function openApi(
  operations: readonly Operation[],
  schemas: Readonly<Record<string, Schema>>,
  /** Where they are mounted. */
  mount: string,
): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const one of operations) {
    const path = `/${one.path.replaceAll(/:(\w+)/g, "{$1}")}`;
    (paths[path] ??= {})[one.method] = described(one);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "nestjs-pg-jobs admin",
      version: VERSION,
      description:
        "Jobs, queues, schedules and workers, for those who operate them. Each operation names the role that it needs in x-role, and so does a member of a body that needs another one; each role may do what those before it may: viewer, operator, admin.",
      license: { name: "MIT", identifier: "MIT" },
    },
    // The folder of this document, whatever it lies in; no slash at the end, for each path begins with one.
    servers: [{ url: mount.replaceAll(/^\/+|\/+$/g, "").replace(/^(?:.*\/)?(?=.)/, "../") || "." }],
    security: [{ credential: [] }],
    tags: [...new Set(operations.map(tagOf))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        credential: {
          type: "http",
          scheme: "bearer",
          description:
            "A token of the deployment; an app with a guard of its own may ask for something else.",
        },
      },
      schemas: { ...schemas, Problem },
    },
  };
}

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "1 to 255 visible characters: whoever sends the same request again within a day gets the answer of the first, with Idempotency-Replayed: true. It is not done twice: where nobody knows whether it was done, that is the answer.",
  schema: text,
};
const LAST_EVENT_ID = {
  name: "Last-Event-ID",
  in: "header",
  description: "The id of the last event that was seen, to go on behind it.",
  schema: text,
};
const OF_DEEDS: Readonly<Record<number, readonly string[]>> = {
  400: ["IDEMPOTENCY_KEY_INVALID"],
  409: ["IDEMPOTENCY_KEY_BUSY", "IDEMPOTENCY_OUTCOME_UNKNOWN"],
  422: ["IDEMPOTENCY_KEY_REUSED"],
  503: ["OUTCOME_UNKNOWN"],
};

const tagOf = ({ path }: Operation): string => path.split(/[/.]/)[0] || "root";

function described(one: Operation): object {
  const { id, role, summary, description, parameters = {}, query = {}, body, answer } = one;
  const inPath = Object.entries<Field<string>>(parameters).map(
    ([name, { schema, about: what }]) => ({
      name,
      in: "path",
      required: true,
      description: what,
      schema,
    }),
  );
  const inQuery = Object.entries(query).map(([name, { schema, about: what }]) => ({
    name,
    in: "query",
    description: what,
    schema,
  }));
  return {
    operationId: id,
    tags: [tagOf(one)],
    "x-role": role,
    summary,
    ...(description === undefined ? {} : { description }),
    parameters: [
      ...inPath,
      ...inQuery,
      ...(isDeed(one) ? [IDEMPOTENCY_KEY] : []),
      ...(one.stream ? [LAST_EVENT_ID] : []),
    ],
    ...(body === undefined ? {} : { requestBody: requestBody(body) }),
    responses: {
      200: {
        description: "OK",
        content: { [one.stream ? "text/event-stream" : "application/json"]: { schema: answer } },
      },
      ...problemsOf(one),
    },
  };
}

function requestBody(body: Readonly<Record<string, Field<unknown>>>): object {
  const entries = Object.entries(body);
  const required = entries.filter(([, field]) => field.required).map(([name]) => name);
  const schema = {
    type: "object",
    properties: Object.fromEntries(
      entries.map(([name, { about: what, schema, role }]) => [
        name,
        { ...about(what, schema), ...(role === undefined ? {} : { "x-role": role }) },
      ]),
    ),
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false,
  };
  return { required: required.length > 0, content: { "application/json": { schema } } };
}

function problemsOf(one: Operation): Record<string, object> {
  const sources = [one.problems ?? {}, isDeed(one) ? OF_DEEDS : {}, COMMON];
  const statuses = new Set(sources.flatMap((codes) => Object.keys(codes).map(Number)));
  return Object.fromEntries(
    [...statuses].map((status) => [
      status,
      {
        description: sources.flatMap((codes) => codes[status] ?? []).join(", "),
        content: { "application/problem+json": { schema: ref("Problem") } },
      },
    ]),
  );
}
