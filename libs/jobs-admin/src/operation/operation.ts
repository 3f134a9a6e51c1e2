import {
  HttpCode,
  RequestMapping,
  RequestMethod,
  SetMetadata,
  Sse,
  applyDecorators,
} from "@nestjs/common";
import type { AdminOperator } from "../auth/operator.js";
import type { AdminRole } from "../auth/roles.js";
import type { Schema } from "../openapi/schema.js";
import type { Payloads } from "../payloads/payloads.js";
import type { Field, Fields, ValuesOf } from "../request/field.js";

// One description of each route, beside its controller: what mounts it, guards it, reads its input and documents it.

/** Where the description of a route stands in its metadata. */
export const OPERATION = "nestjs-pg-jobs-admin:operation";

/** Names that stand in a path, as Nest writes them. */
type NamesIn<P extends string> = P extends `${string}:${infer Name}/${infer Rest}`
  ? Name | NamesIn<Rest>
  : P extends `${string}:${infer Name}`
    ? Name
    : never;

/** Who asks, and what of this deployment decides whether that is right. */
export interface Asking {
  readonly operator: AdminOperator;
  readonly payloads: Payloads;
  /** The longest payload that is taken, in bytes of its JSON. */
  readonly payloadLimit: number;
}

/** What a route is asked, what it answers, and who may ask. */
export interface Operation<
  Q extends Fields = Fields,
  B extends Fields = Fields,
  P extends string = string,
> {
  /** Its name in clients that are made from the document. */
  readonly id: string;
  readonly method: "get" | "post" | "patch" | "delete";
  /** Below the mount, as Nest writes it. */
  readonly path: P;
  /** What its path names, each of them. */
  readonly parameters?: Readonly<Record<NamesIn<P>, Field<string>>>;
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
  /**
   * What is wrong with what is asked, beyond each field alone, and without a look at the database: then nothing is done, and
   * nothing is written. @throws ProblemException, JobsError
   */
  check?(
    asked: { parameters: Record<NamesIn<P>, string>; query: ValuesOf<Q>; body: ValuesOf<B> },
    asking: Asking,
  ): void;
  readonly answer: Schema;
  /** The codes of its own problems, by status. */
  readonly problems?: Readonly<Record<number, readonly string[]>>;
}

/** What {@link Input} gives to the route of an operation. */
export type InputOf<O> =
  O extends Operation<infer Q, infer B, infer _>
    ? { query: ValuesOf<Q>; body: ValuesOf<B> }
    : never;

/** It changes something: that is written down, and may be asked for again. */
export const isDeed = ({ method, changes }: Operation): boolean =>
  method !== "get" && changes !== false;

/** Keeps the types of its fields; what its path names has one each. */
export const operation = <
  const P extends string,
  const Q extends Fields = {},
  const B extends Fields = {},
>(
  described: Operation<Q, B, P> & ([NamesIn<P>] extends [never] ? unknown : { parameters: object }),
): Operation<Q, B, P> => Object.freeze(described);

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
