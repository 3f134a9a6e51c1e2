import { PayloadTooLargeError, atIndex } from "../job/errors.js";
import { type Definition, resolve } from "../job/definition.js";
import { jsonText } from "../job/json.js";
import { validate } from "../job/standard-schema.js";
import { type EnqueueOptions, parseEnqueueOptions } from "../job/enqueue-options.js";
import type { Store } from "../store/store.js";
import type { NewJob } from "../store/transitions/enqueue.js";

/** A checked job and where it goes; it has no id yet. */
export interface Addressed {
  queueId: number;
  queue: string;
  job: NewJob;
}

/** One item of `enqueueMany`: a payload, or a payload with options of its own. */
export type Item<In> = In | ({ payload: In } & EnqueueOptions);

const ITEM_KEYS = new Set([
  "payload",
  "delay",
  "at",
  "priority",
  "queue",
  "attempts",
  "timeout",
  "key",
]);

/** Checks a call and looks up its lane; nothing is written but a new lane. */
export async function address(
  store: Store,
  payloadLimit: number,
  definition: Definition | string,
  payload: unknown,
  options: EnqueueOptions | undefined,
): Promise<Addressed> {
  const contract = resolve(definition);
  const { queue, priority, attempts, timeoutMs, delayMs, at, key } = parseEnqueueOptions(
    contract,
    options,
  );
  if (contract.payload !== null) await validate(contract.payload, payload, contract.kind);
  const text = payloadText(contract.kind, payload, payloadLimit);
  const lane =
    store.knownLane(queue, contract.kind, priority) ??
    (await store.lane(queue, contract.kind, priority));
  return {
    queueId: lane.queueId,
    queue,
    job: {
      id: "",
      lane: lane.lane,
      kind: contract.kind,
      delayMs,
      at,
      attempts,
      timeoutMs,
      key,
      payload: text,
    },
  };
}

/** The JSON text of a payload; `whose` is for the message. @throws NotJsonError, PayloadTooLargeError */
export function payloadText(whose: string, payload: unknown, limit: number): string {
  const text = jsonText(payload);
  // A character has at most three bytes, so that most payloads need no counting.
  if (text.length * 3 > limit) {
    const bytes = Buffer.byteLength(text);
    if (bytes > limit) throw new PayloadTooLargeError(whose, bytes, limit);
  }
  return text;
}

/** Checks all items of a call; the first bad one is named by `error.index`. */
export async function addressMany(
  store: Store,
  payloadLimit: number,
  definition: Definition | string,
  items: readonly unknown[],
  shared: EnqueueOptions | undefined,
): Promise<Addressed[]> {
  const contract = resolve(definition);
  const addressed: Addressed[] = [];
  for (const [index, item] of items.entries()) {
    try {
      const [payload, options] = unwrap(item, shared);
      addressed.push(await address(store, payloadLimit, contract, payload, options));
    } catch (error) {
      throw error instanceof Error ? atIndex(error, index) : error;
    }
  }
  return addressed;
}

/** `{ payload, …options }` when it has a payload and nothing but options beside it; else it is the payload. */
function unwrap(
  item: unknown,
  shared: EnqueueOptions | undefined,
): [unknown, EnqueueOptions | undefined] {
  if (typeof item !== "object" || item === null || !Object.hasOwn(item, "payload"))
    return [item, shared];
  if (!Object.keys(item).every((key) => ITEM_KEYS.has(key))) return [item, shared];
  const { payload, ...own } = item as { payload: unknown } & EnqueueOptions;
  return [payload, { ...shared, ...own }];
}

/** Places of the jobs of each queue; queues in the order of their ids, so that two calls cannot wait for one another. */
export function byQueue(all: readonly Addressed[]): { queueId: number; places: number[] }[] {
  const places = new Map<number, number[]>();
  all.forEach(({ queueId }, place) => {
    const known = places.get(queueId);
    if (known) known.push(place);
    else places.set(queueId, [place]);
  });
  return [...places].sort(([a], [b]) => a - b).map(([queueId, of]) => ({ queueId, places: of }));
}
