import {
  HttpCode,
  RequestMapping,
  RequestMethod,
  SetMetadata,
  Sse,
  applyDecorators,
} from "@nestjs/common";
import type { AdminRole } from "../auth/roles.js";
import type { Schema } from "../openapi/schema.js";
import type { Fields, ValuesOf } from "../request/field.js";

// One description of each route, beside its controller: what mounts it, guards it, reads its input and documents it.

/** Where the description of a route stands in its metadata. */
export const OPERATION = "nestjs-pg-jobs-admin:operation";

/** What a route is asked, what it answers, and who may ask. */
export interface Operation<Q extends Fields = Fields, B extends Fields = Fields> {
  /** Its name in clients that are made from the document. */
  readonly id: string;
  readonly method: "get" | "post" | "patch" | "delete";
  /** Below the mount, as Nest writes it. */
  readonly path: string;
  readonly role: AdminRole;
  readonly summary: string;
  readonly description?: string;
  /** It answers with server-sent events; `answer` is what each of them may have as its data. */
  readonly stream?: true;
  /** False: it changes nothing, though it is no GET. */
  readonly changes?: false;
  /** Absent: it takes no parameters. */
  readonly query?: Q;
  /** Absent: it takes no body. */
  readonly body?: B;
  readonly answer: Schema;
  /** The codes of its own problems, by status. */
  readonly problems?: Readonly<Record<number, readonly string[]>>;
}

/** What {@link Input} gives to the route of an operation. */
export type InputOf<O> =
  O extends Operation<infer Q, infer B> ? { query: ValuesOf<Q>; body: ValuesOf<B> } : never;

/** Keeps the types of its fields. */
export const operation = <const Q extends Fields = {}, const B extends Fields = {}>(
  described: Operation<Q, B>,
): Operation<Q, B> => Object.freeze(described);

const METHODS = {
  get: RequestMethod.GET,
  post: RequestMethod.POST,
  patch: RequestMethod.PATCH,
  delete: RequestMethod.DELETE,
};

/** Characters that wait for somebody who does not read them: then he is cut off, and may come again. */
const MOST_PENDING = 1_000_000;

/** Makes a method the route of an operation, with its role. */
export const Serves = (described: Operation): MethodDecorator =>
  applyDecorators(
    described.stream
      ? Sse(described.path, { maxPendingDataLength: MOST_PENDING })
      : RequestMapping({ method: METHODS[described.method], path: described.path }),
    HttpCode(200),
    SetMetadata(OPERATION, described),
  );
