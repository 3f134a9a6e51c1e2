import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { openApi } from "../../libs/jobs-admin/src/openapi/document.js";
import { OPERATIONS, SCHEMAS } from "../../libs/jobs-admin/src/openapi/operations.js";

interface Document {
  paths: Record<
    string,
    Record<
      string,
      { responses: Record<number, { description: string; headers?: Record<string, object> }> }
    >
  >;
}

/** What stands in answers beside what each server sends. */
const HEADERS = ["Idempotency-Replayed", "Retry-After", "WWW-Authenticate"];

/** Holds answers against the document of the API. */
export class AdminContract {
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true });
  readonly #document = openApi(OPERATIONS, SCHEMAS, "admin") as Document;
  readonly #validators = new Map<string, ValidateFunction>();

  constructor() {
    formats.default(this.#ajv);
    this.#ajv.addSchema(this.#document, "api", false);
  }

  /** @throws what of the answer of this route the document does not know. */
  check(
    method: string,
    path: string,
    answer: { status: number; headers: Headers; body: unknown },
  ): void {
    const route = OPERATIONS.find(
      (one) => one.method === method && matches(one.path, path.replace(/\/$/, "")),
    );
    if (!route) return;
    const { status, headers, body } = answer;
    const shown = route.stream ? "text/event-stream" : "application/json";
    const type = status === 200 ? shown : "application/problem+json";
    const sent = headers.get("content-type")?.split(";")[0];
    const kept = headers.get("cache-control")?.split(", ").includes("no-store") ? "no-store" : "";
    const quiet = [kept, headers.get("x-content-type-options")];
    if (sent !== type || quiet.join() !== "no-store,nosniff")
      throw new Error(`${method} ${path}: found ${status} with ${sent}, ${quiet.join()}`);
    const told = this.#document.paths[`/${route.path.replaceAll(/:(\w+)/g, "{$1}")}`]![method]!;
    const { description, headers: named = {} } = told.responses[status]!;
    const unknown = HEADERS.filter((name) => headers.has(name) && !(name in named));
    if (unknown.length > 0)
      throw new Error(`${method} ${path} ${status}: unknown ${unknown.join()}`);
    const { code } = body as { code?: string };
    if (type === "application/problem+json" && !description.split(", ").includes(code!))
      throw new Error(`${method} ${path} ${status}: found ${code}, told ${description}`);
    const validate = this.#validator(`/${route.path.replaceAll(/:(\w+)/g, "{$1}")}`, method, {
      status,
      type,
    });
    if (validate(body)) return;
    const problems = this.#ajv.errorsText(validate.errors, { separator: "\n  " });
    throw new Error(`${method} ${path} ${status}:\n  ${problems}\n${JSON.stringify(body)}`);
  }

  #validator(path: string, method: string, { status, type }: { status: number; type: string }) {
    const parts = ["paths", path, method, "responses", status, "content", type, "schema"];
    const pointer = parts
      .map((part) => String(part).replaceAll("~", "~0").replaceAll("/", "~1"))
      .map(encodeURIComponent)
      .join("/");
    const known = this.#validators.get(pointer);
    if (known) return known;
    const made = this.#ajv.compile({ $ref: `api#/${pointer}` });
    this.#validators.set(pointer, made);
    return made;
  }
}

const matches = (route: string, path: string): boolean => {
  const [parts, given] = [route.split("/"), path.split("/")];
  return (
    parts.length === given.length &&
    parts.every((part, index) => part.startsWith(":") || part === given[index])
  );
};
