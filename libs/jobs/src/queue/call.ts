import {
  JobsError,
  OptionsError,
  PayloadInvalidError,
  PayloadTooLargeError,
  atIndex,
} from "../job/errors.js";
import { type Definition, resolve } from "../job/definition.js";
import { jsonText } from "../job/json.js";
import { formatJobId } from "../job/job-id.js";
import { validate } from "../job/standard-schema.js";
import { ENQUEUE_KEYS, type EnqueueOptions, parseEnqueueOptions } from "../job/enqueue-options.js";
import type { Enqueued } from "../job/enqueued.js";
import { OptionsCheck, readable } from "../job/options-check.js";
import type { Store } from "../store/store.js";
import type { Holder } from "../store/transitions/enqueue.js";
import type { NewJob } from "../store/transitions/new-jobs.js";

/** A checked job and where it goes; it has no id yet. */
export interface Addressed {
  queueId: number;
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
  const { contract, parsed } = readable("call of enqueue", () => read(definition, options));
  const { kind } = contract;
  const { queue, priority, attempts, timeoutMs, delayMs, at, key, unique } = parsed;
  const text =
    contract.payload === null
      ? payloadText(kind, payload, payloadLimit)
      : await payloadFor(contract, payload, payloadLimit);
  if (unique) await store.needs(2, unique.windowMs === null ? "onConflict" : "windows of keys");
  const lane = store.knownLane(queue, kind, priority) ?? (await store.lane(queue, kind, priority));
  return {
    queueId: lane.queueId,
    job: {
      id: "",
      queue,
      lane: lane.lane,
      kind,
      priority,
      delayMs,
      at,
      attempts,
      timeoutMs,
      key,
      unique,
      payload: text,
    },
  };
}

/**
 * Looks the lanes up anew, after a statement has found others under their numbers. Ids are chosen anew too: they may
 * come from a block of a sequence that is gone. `within` somebody's transaction the statement may have looked with a
 * snapshot older than the lane: one that is found unchanged is not checked again.
 */
export async function readdress(
  store: Store,
  all: readonly Addressed[],
  { within = false } = {},
): Promise<void> {
  for (const { queueId, job } of all)
    store.forgetLane(job.queue, job.kind, job.priority, { queueId, lane: job.lane });
  for (const one of all) {
    const { job } = one;
    const { queueId, lane } = await store.lane(job.queue, job.kind, job.priority);
    job.looked = within && queueId === one.queueId && lane === job.lane;
    job.lane = lane;
    job.id = "";
    one.queueId = queueId;
  }
}

function read(definition: Definition | string, options: EnqueueOptions | undefined) {
  const contract = resolve(definition);
  return { contract, parsed: parseEnqueueOptions(contract, options) };
}

/** The JSON text of a payload that fits its contract. */
export async function payloadFor(
  { kind, payload: schema }: Definition,
  payload: unknown,
  limit: number,
): Promise<string> {
  if (schema !== null) await validate(schema, payload, kind);
  return payloadText(kind, payload, limit);
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
  const { contract, list } = readable("call of enqueueMany", () => {
    if (!Array.isArray(items))
      throw new OptionsError("call of enqueueMany", ["items: expected an array of payloads"]);
    const one = resolve(definition);
    // The keys may stand in the items.
    parseEnqueueOptions(one, isRecord(shared) ? { ...shared, key: shared.key ?? "?" } : shared);
    return { contract: one, list: withoutHoles(items as unknown[]) };
  });
  const addressed: Addressed[] = [];
  for (const [index, item] of list.entries()) {
    try {
      addressed.push(await addressItem(store, payloadLimit, contract, item, shared));
    } catch (error) {
      throw error instanceof Error ? atIndex(error, index) : error;
    }
  }
  return addressed;
}

/** What is not there is no payload; `undefined` that was put there is. */
function withoutHoles(items: readonly unknown[]): readonly unknown[] {
  const hole = items.findIndex((_, index) => !(index in items));
  if (hole === -1) return [...items];
  throw atIndex(
    new OptionsError("call of enqueueMany", [
      `items[${hole}]: expected a payload, found a hole in the array`,
    ]),
    hole,
  );
}

const isRecord = (value: unknown): value is EnqueueOptions =>
  typeof value === "object" && value !== null && !Array.isArray(value);

async function addressItem(
  store: Store,
  payloadLimit: number,
  contract: Definition,
  item: unknown,
  shared: EnqueueOptions | undefined,
): Promise<Addressed> {
  const parts = readable("item of enqueueMany", () => partsOf(item));
  if (!parts) return await address(store, payloadLimit, contract, item, shared);
  try {
    checkNames(contract, parts.own);
    const options = { ...shared, ...said(parts.own) };
    return await address(store, payloadLimit, contract, parts.payload, options);
  } catch (error) {
    if (!(error instanceof JobsError) || !(await isWholePayload(contract, parts, item)))
      throw error;
    return await address(store, payloadLimit, contract, item, shared);
  }
}

function partsOf(item: unknown): { payload: unknown; own: object } | undefined {
  if (typeof item !== "object" || item === null || !Object.hasOwn(item, "payload"))
    return undefined;
  const { payload, ...own } = item as { payload: unknown };
  return { payload, own };
}

/** Without what is undefined: that is as good as not said, and what is shared holds. */
const said = (own: object): EnqueueOptions =>
  Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined));

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
async function isWholePayload(
  contract: Definition,
  { payload, own }: { payload: unknown; own: object },
  item: unknown,
): Promise<boolean> {
  return (
    !(await fits(contract, payload)) &&
    (await fits(contract, item)) &&
    // A schema that is not strict takes anything: that says nothing of a field of this name.
    !(await fits(contract, own))
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

/** What a caller is told of a job and of who has its key. */
export function answerFor({ queueId, job }: Addressed, { id, replaced }: Holder): Enqueued {
  const answer = { id: formatJobId(queueId, id), deduplicated: id !== job.id };
  return replaced === undefined || !answer.deduplicated ? answer : { ...answer, replaced };
}

/** Ms until a job is due, as far as this process's clock can tell; its delay began `ago` ms ago. */
export const dueIn = ({ at, delayMs }: NewJob, ago = 0): number =>
  at === null ? delayMs - ago : at.getTime() - Date.now();

/** In so many ms a job of this queue and kind is due. */
export interface DueTime {
  queueId: number;
  kind: string;
  ms: number;
}

/**
 * When jobs of one kind are due, in ms: of each queue the oldest of those that are, and all that are not.
 * `calledAt`: when their delays began, if that is a while ago; monotonic ms.
 */
export function dueTimes(all: readonly Addressed[], calledAt?: number): DueTime[] {
  const ago = calledAt === undefined ? 0 : performance.now() - calledAt;
  const oldest = new Map<number, DueTime>();
  const times: DueTime[] = [];
  for (const { queueId, job } of all) {
    const time = { queueId, kind: job.kind, ms: dueIn(job, ago) };
    if (time.ms > 0) times.push(time);
    else if (time.ms < (oldest.get(queueId)?.ms ?? Number.POSITIVE_INFINITY))
      oldest.set(queueId, time);
  }
  return [...oldest.values(), ...times];
}
