import { type LimitOrder, type QueuePart, parseLimitOrder, parseQueueOrder } from "nestjs-pg-jobs";
import type { AdminOperator } from "../auth/operator.js";
import { refuseKey, refusePlaces } from "../jobs/refusals.js";
import { list, object, ref } from "../openapi/schema.js";
import { operation } from "../operation/operation.js";
import type { Payloads } from "../payloads/payloads.js";
import { type ValuesOf, json, key, name, required, time, words } from "../request/field.js";
import { WHY, WHY_AND_BY } from "../request/why.js";

/** Which one. */
const ONE = { name: name("Of this one.") };
const UNKNOWN = { 400: ["PAYLOAD_REDACTED"], 404: ["QUEUE_UNKNOWN", "KIND_UNKNOWN"] };

/** Which part of a queue is meant. */
const PART = {
  kind: name("Of this kind only."),
  key: key("Of this key only, as a limit of the queue, or of the kind, reads it from payloads."),
  keyPath: words("Which limit reads that key, where several have keys."),
};

const LIMIT = {
  type: "object",
  properties: {
    max: { type: "integer", minimum: 1, maximum: 1_000_000 },
    key: { type: "string", description: "Where the key stands in payloads: so many for each." },
  },
  required: ["max"],
  additionalProperties: false,
};
const RATE = {
  ...LIMIT,
  properties: {
    ...LIMIT.properties,
    per: {
      type: ["integer", "string"],
      description: "The window: ms, or such as '1m'; 100 ms to 30 days.",
    },
  },
  required: ["max", "per"],
};
/** One, several, or null: none. */
const bounds = (schema: object) => ({
  anyOf: [schema, { type: "array", items: schema, maxItems: 100 }, { type: "null" }],
});

const BOUNDS = {
  limit: required(
    json("How many run at once, for all jobs or for each key; null: any number.", bounds(LIMIT)),
  ),
  rate: required(json("How many start in any window; null: any number.", bounds(RATE))),
  kind: name("Of this kind; absent: of the queue as a whole."),
  ...WHY_AND_BY,
};

/** Which part a request is about. */
export function partOf({ kind, key, keyPath }: ValuesOf<typeof PART>): QueuePart {
  return {
    ...(kind === undefined ? {} : { kind }),
    ...(key === undefined ? {} : { key }),
    ...(keyPath === undefined ? {} : { keyPath }),
  };
}

/** What a body orders, in somebody's name; the library checks it. */
export function orderOf(body: ValuesOf<typeof BOUNDS>, by: string): LimitOrder {
  const { limit, rate, ...rest } = body;
  return { ...rest, limit: limit ?? undefined, rate: rate ?? undefined, by } as LimitOrder;
}

export const listQueues = operation({
  id: "listQueues",
  method: "get",
  path: "queues",
  role: "viewer",
  summary: "All queues by name: what is in them, how they are doing, what of them is paused",
  answer: object({ items: list(ref("Queue")) }),
});

export const getQueue = operation({
  id: "getQueue",
  method: "get",
  path: "queues/:name",
  parameters: ONE,
  role: "viewer",
  summary: "A queue, with its limits and what they count",
  answer: ref("QueueDetails"),
  problems: { 404: ["QUEUE_UNKNOWN"] },
});

export const pauseQueue = operation({
  id: "pauseQueue",
  method: "post",
  path: "queues/:name/pause",
  parameters: ONE,
  role: "operator",
  summary: "Start no job of a queue, of one of its kinds or of one key any more",
  description:
    "What runs goes on. A pause that stands is changed to what this says, its beginning stays.",
  body: {
    ...WHY_AND_BY,
    until: time("It goes on by itself then; absent: when it is resumed."),
    ...PART,
  },
  check({ parameters, body }, { operator, payloads }) {
    refuseKeyOf(body, operator, payloads);
    parseQueueOrder("pause", parameters.name, { ...body, by: operator.name });
  },
  answer: ref("QueuePauses"),
  problems: UNKNOWN,
});

export const resumeQueue = operation({
  id: "resumeQueue",
  method: "delete",
  path: "queues/:name/pause",
  parameters: ONE,
  role: "operator",
  summary: "Let it go on: what is resumed is what was paused",
  query: { ...PART, ...WHY },
  check({ parameters, query }, { operator, payloads }) {
    refuseKeyOf(query, operator, payloads);
    parseQueueOrder("resume", parameters.name, partOf(query));
  },
  answer: ref("QueuePauses"),
  problems: UNKNOWN,
});

export const limitQueue = operation({
  id: "limitQueue",
  method: "patch",
  path: "queues/:name",
  parameters: ONE,
  role: "operator",
  summary: "Bound a queue, or one of its kinds, in all processes",
  description:
    "Both are set together, so both are said: null takes all limits, or rates, away. It holds until the code of a worker says something else than before.",
  body: BOUNDS,
  check({ parameters, body }, { operator, payloads }) {
    refusePlaces([body.limit, body.rate].flatMap(placesIn), operator, payloads);
    parseLimitOrder(parameters.name, orderOf(body, operator.name));
  },
  answer: object({ limits: list(ref("Limit")) }),
  problems: UNKNOWN,
});

export const QUEUE_OPERATIONS = [listQueues, getQueue, pauseQueue, resumeQueue, limitQueue];

/** The places of bounds for each key; what else is wrong with them is found later. */
function placesIn(bounds: unknown): string[] {
  return [bounds].flat().flatMap((bound: unknown) => {
    const { key } = (bound ?? {}) as { key?: unknown };
    return typeof key === "string" ? key.slice(0, 1_000) : [];
  });
}

/** Before he is told which limits there are: which of them is meant is only known then. */
function refuseKeyOf(
  part: ValuesOf<typeof PART>,
  operator: AdminOperator,
  payloads: Payloads,
): void {
  const { key, keyPath } = part;
  if (key !== undefined) refuseKey(key, keyPath === undefined ? [] : [keyPath], operator, payloads);
}
