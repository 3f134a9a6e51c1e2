import { JobsError, PayloadInvalidError, PayloadTooLargeError, atIndex } from "../job/errors.js";
import { type Definition, resolve } from "../job/definition.js";
import { jsonText } from "../job/json.js";
import { validate } from "../job/standard-schema.js";
import { ENQUEUE_KEYS, type EnqueueOptions, parseEnqueueOptions } from "../job/enqueue-options.js";
import { OptionsCheck } from "../job/options-check.js";
import type { Store } from "../store/store.js";
import type { NewJob } from "../store/transitions/enqueue.js";

/** A checked job and where it goes; it has no id yet. */
export interface Addressed {
  queueId: number;
  queue: string;
  job: NewJob;
}

/**
 * One item of `enqueueMany`: whatever has a `payload` is a payload with options of its own (unless the definition's
 * schema refuses that payload and takes the whole item, but not without its `payload`); all else is a payload.
 */
export type Item<In> = In | ({ payload: In } & EnqueueOptions);

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
  parseEnqueueOptions(contract, shared);
  const addressed: Addressed[] = [];
  for (const [index, item] of items.entries()) {
    try {
      addressed.push(await addressItem(store, payloadLimit, contract, item, shared));
    } catch (error) {
      throw error instanceof Error ? atIndex(error, index) : error;
    }
  }
  return addressed;
}

async function addressItem(
  store: Store,
  payloadLimit: number,
  contract: Definition,
  item: unknown,
  shared: EnqueueOptions | undefined,
): Promise<Addressed> {
  if (!hasPayload(item)) return await address(store, payloadLimit, contract, item, shared);
  const { payload, ...own } = item;
  try {
    checkNames(contract, own);
    return await address(store, payloadLimit, contract, payload, { ...shared, ...own });
  } catch (error) {
    if (!(error instanceof JobsError) || !(await isWholePayload(contract, item))) throw error;
    return await address(store, payloadLimit, contract, item, shared);
  }
}

const hasPayload = (item: unknown): item is { payload: unknown } =>
  typeof item === "object" && item !== null && Object.hasOwn(item, "payload");

/** A misspelt option must not make a payload of the item. */
function checkNames(contract: Definition, own: object): void {
  if (Object.keys(own).every((key) => ENQUEUE_KEYS.includes(key))) return;
  const check = new OptionsCheck(`item of enqueueMany "${contract.kind}"`);
  check.object("", own, ENQUEUE_KEYS);
  check.add(
    "an item with a payload is { payload, ...options }; if the whole item is meant, send { payload: item }",
  );
  check.done();
}

/** Whether the schema has a field `payload` of its own, by which the item is one of its payloads and nothing else. */
async function isWholePayload(contract: Definition, item: { payload: unknown }): Promise<boolean> {
  const { payload, ...rest } = item;
  return (
    !(await fits(contract, payload)) &&
    (await fits(contract, item)) &&
    // A schema that is not strict takes anything: that says nothing of a field of this name.
    !(await fits(contract, rest))
  );
}

async function fits({ payload: schema, kind }: Definition, value: unknown): Promise<boolean> {
  if (schema === null) return true;
  try {
    await validate(schema, value, kind);
    return true;
  } catch (error) {
    if (error instanceof PayloadInvalidError) return false;
    throw error;
  }
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
