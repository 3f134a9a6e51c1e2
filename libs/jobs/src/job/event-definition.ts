import { OptionsCheck, describe, isName } from "./options-check.js";
import type { SchemaInput, SchemaOutput, StandardSchemaV1 } from "./standard-schema.js";
import { isSchema } from "./standard-schema.js";

// by name, so that two copies of the package know each other's events
const EVENT: unique symbol = Symbol.for("nestjs-pg-jobs.event");

/** The options of {@link defineEvent}. */
export interface EventOptions<
  S extends StandardSchemaV1 | undefined = StandardSchemaV1 | undefined,
> {
  /** The schema of what is published, checked then and when it is delivered; absent: any JSON. */
  payload?: S;
}

/** The typed contract of an event: `In` is published, its handlers get `Out`. */
export interface EventDefinition<In = unknown, Out = unknown> {
  /** The stable name of the event. */
  readonly event: string;
  /** The schema of what is published; null: any JSON. */
  readonly payload: StandardSchemaV1<In, Out> | null;
  /** Carries the types; its value means nothing. */
  readonly [EVENT]: { readonly in: In; readonly out: Out };
}

/** What is published of an event. */
export type EventInput<E> = E extends EventDefinition<infer In, unknown> ? In : unknown;

/** What the handlers of an event get. */
export type EventPayload<E> = E extends EventDefinition<unknown, infer Out> ? Out : unknown;

/**
 * Declares an event, with a schema (types inferred) or with types alone: `defineEvent<Order>('order.placed')`,
 * `defineEvent('order.placed', { payload: schema })`.
 * @param event the stable name, 1..64 characters without control characters.
 * @throws OptionsError with all problems.
 */
export function defineEvent<S extends StandardSchemaV1>(
  event: string,
  options: EventOptions<S> & { payload: S },
): EventDefinition<SchemaInput<S>, SchemaOutput<S>>;
export function defineEvent<P = unknown>(
  event: string,
  options?: EventOptions<undefined>,
): EventDefinition<P, P>;
export function defineEvent(event: string, options: EventOptions = {}): EventDefinition {
  const check = new OptionsCheck(`definition of event ${describe(event)}`);
  if (!isName(event)) check.expected("event", "1..64 characters without control characters", event);
  const given: Record<string, unknown> = check.object("", options, ["payload"]) ? options : {};
  const payload = given.payload ?? null;
  if (payload !== null && !isSchema(payload))
    check.expected("payload", "a Standard Schema (Zod, Valibot, ArkType …)", payload);
  check.done();
  const definition = { event, payload: payload as StandardSchemaV1 | null };
  Object.defineProperty(definition, EVENT, { value: true });
  return Object.freeze(definition) as EventDefinition;
}

/** Whether it was made by {@link defineEvent}, of any copy of this package. */
export function isEventDefinition(value: unknown): value is EventDefinition {
  return typeof value === "object" && value !== null && EVENT in value;
}

/** The event itself, or one without schema for a string. @throws OptionsError */
export function resolveEvent(event: EventDefinition | string): EventDefinition {
  return isEventDefinition(event) ? event : defineEvent(event);
}

const MOST_KEYS = 100;
const ROUTING_KEY = /^[^\0\p{Cs}]{1,256}$/u;

/** Whether it may be a routing key. */
export const isRoutingKey = (value: unknown): value is string =>
  typeof value === "string" && ROUTING_KEY.test(value);

/** The words for what a routing key may be. */
export const ROUTING_KEY_FORM = "1..256 characters without NUL";

/** The routing keys of a subscription, sorted; null: all. */
export function parseRoutingKeys(check: OptionsCheck, value: unknown): readonly string[] | null {
  if (value === undefined) return null;
  const keys: unknown[] = Array.isArray(value) ? value : [value];
  if (keys.length === 0 || keys.length > MOST_KEYS || !keys.every(isRoutingKey)) {
    check.expected("routingKey", `one of ${ROUTING_KEY_FORM}, or a list of 1..${MOST_KEYS}`, value);
    return null;
  }
  return Object.freeze([...new Set(keys)].sort());
}
