import { type Operation, isDeed } from "../operation/operation.js";
import type { Field } from "../request/field.js";
import { ADMIN_ROLES } from "../auth/roles.js";
import { type Schema, about, integer, list, orNull, ref, text, word } from "./schema.js";

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

/** Any problem; what of its members belongs to a code is there with that code only. */
const problemSchema = (codes: readonly string[]): Schema => ({
  type: "object",
  description:
    "RFC 9457. `code` is stable, `detail` is for people; other members belong to the code.",
  properties: {
    type: text,
    title: text,
    status: integer,
    code: about("One of these; another one only of a guard, or an app, of one's own.", {
      anyOf: [word(...codes), text],
    }),
    detail: text,
    problems: about("Each thing that is wrong with the request, at most 51.", list(text)),
    role: about("ROLE_TOO_WEAK: the operator's.", word(...ADMIN_ROLES)),
    needed: about("ROLE_TOO_WEAK: the one that is needed.", word(...ADMIN_ROLES)),
    state: about("JOB_NOT_REQUEUEABLE, JOB_NOT_CANCELLABLE, JOB_RUNS, KEY_TAKEN: the job's.", text),
    key: about("KEY_TAKEN: the job's key.", orNull(text)),
    ids: about("ENQUEUE_OUTCOME_UNKNOWN: of the jobs that may exist.", list(text)),
  },
  required: ["type", "title", "status", "code", "detail"],
});

/** Headers of answers, by name. */
const HEADERS: Readonly<Record<string, object>> = {
  "Idempotency-Replayed": {
    description: "The answer of the first request under this Idempotency-Key; absent: this is it.",
    schema: word("true"),
  },
  "Retry-After": {
    description: "In so many seconds it may be sent again.",
    schema: integer,
  },
  "WWW-Authenticate": { description: "How to say who asks.", schema: text },
};
const headers = (...names: string[]): object =>
  names.length === 0
    ? {}
    : {
        headers: Object.fromEntries(
          names.map((name) => [name, { $ref: `#/components/headers/${name}` }]),
        ),
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
      headers: HEADERS,
      schemas: { ...schemas, Problem: problemSchema(codesOf(operations)) },
    },
  };
}

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "1 to 255 visible characters: whoever sends the same request again within a day gets the answer of the first, with Idempotency-Replayed: true. It is not done twice: where nobody knows whether it was done, that is the answer.",
  schema: { ...text, minLength: 1, maxLength: 255, pattern: "^[!-~]{1,255}$" },
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
        ...headers(...headersOf(one, 200)),
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

/** The codes of an operation by status, of each source of them. */
const sourcesOf = (one: Operation): Readonly<Record<number, readonly string[]>>[] => [
  one.problems ?? {},
  isDeed(one) ? OF_DEEDS : {},
  COMMON,
];

const codesOf = (operations: readonly Operation[]): string[] => {
  const all = operations.flatMap((one) => sourcesOf(one).flatMap((codes) => Object.values(codes)));
  return [...new Set(all.flat())].sort();
};

function problemsOf(one: Operation): Record<string, object> {
  const sources = sourcesOf(one);
  const statuses = new Set(sources.flatMap((codes) => Object.keys(codes).map(Number)));
  return Object.fromEntries(
    [...statuses].map((status) => [
      status,
      {
        description: sources.flatMap((codes) => codes[status] ?? []).join(", "),
        ...headers(...headersOf(one, status)),
        content: { "application/problem+json": { schema: ref("Problem") } },
      },
    ]),
  );
}

/** What is said of a request before it is known who sends it, or which it is, is never said again. */
const AT_THE_DOOR = [401, 415, 429];

function headersOf(one: Operation, status: number): string[] {
  if (status === 401) return ["WWW-Authenticate"];
  if (status === 429 || status === 503) return ["Retry-After"];
  return isDeed(one) && status < 500 && !AT_THE_DOOR.includes(status)
    ? ["Idempotency-Replayed"]
    : [];
}
