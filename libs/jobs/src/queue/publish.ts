import type { Duration } from "../job/duration.js";
import type { Enqueued } from "../job/enqueued.js";
import { eventHeaders } from "../job/headers.js";
import { type OnConflict, parseTimeAndKey } from "../job/enqueue-options.js";
import {
  type EventDefinition,
  ROUTING_KEY_FORM,
  isRoutingKey,
  resolveEvent,
} from "../job/event-definition.js";
import { OptionsCheck, isName, readable } from "../job/options-check.js";
import { validate } from "../job/standard-schema.js";
import { EVENTS_SINCE, list, subscribers } from "../store/events/subscriptions.js";
import type { Store } from "../store/store.js";
import { type Addressed, payloadText } from "./call.js";
import { refuse } from "./subscriptions.js";

/** The options of one `publish`. */
export interface PublishOptions {
  /** Of subscribers that name routing keys those that name this one get it; 1..256 characters. Absent: none of them. */
  routingKey?: string;
  /** Only these of its subscribers, by their names; absent: all. */
  to?: string | readonly string[];
  /** The wait before it may be delivered; excludes `at`. */
  delay?: Duration;
  /** When it may be delivered; excludes `delay`. */
  at?: Date;
  /** Of each subscriber the key of its delivery: no other one while that is queued or running; 1..512 characters. */
  key?: string;
  /** How long the key is unique at least, also when the delivery is over; with `key` only. */
  window?: Duration;
  /** What becomes of a delivery that waits with the same key; with `key` only. Default `'keep'`. */
  onConflict?: OnConflict;
}

/** A delivery: the job of one subscriber. `deduplicated`: it was there already, with the same key. */
export interface Delivery extends Enqueued {
  /** The subscriber: the kind of the job. */
  subscriber: string;
  queue: string;
}

const KEYS = ["routingKey", "to", "delay", "at", "key", "window", "onConflict"];

/** Checks a call and finds the jobs that are to be made, one for each subscriber. */
export async function addressEvent(
  store: Store,
  payloadLimit: number,
  event: EventDefinition | string,
  payload: unknown,
  options: PublishOptions | undefined,
): Promise<Addressed[]> {
  const { contract, routingKey, to, parsed } = readable("call of publish", () =>
    read(event, options),
  );
  const name = contract.event;
  if (contract.payload !== null) await validate(contract.payload, payload, name);
  const text = payloadText(name, payload, payloadLimit);
  await store.needs(EVENTS_SINCE, "events");
  if (parsed.unique) await store.needs(2, "windows and conflicts of keys");
  const found = await store.guard(() => subscribers(store.session, name, routingKey, to));
  if (to && found.length < to.length) await checkNames(store, name, to);
  const headers = eventHeaders({ name, ...(routingKey === null ? {} : { routingKey }) });
  const all: Addressed[] = [];
  for (const { kind, queue, priority } of found) {
    const lane = await store.lane(queue, kind, priority);
    const job = { id: "", queue, lane: lane.lane, kind, priority, ...parsed };
    const rest = { attempts: null, timeoutMs: null, headers, payload: text };
    all.push({ queueId: lane.queueId, job: { ...job, ...rest } });
  }
  return all;
}

/** What each subscriber has got. */
export const deliveriesOf = (all: readonly Addressed[], answers: readonly Enqueued[]): Delivery[] =>
  answers.map((answer, index) => {
    const { kind, queue } = all[index]!.job;
    return { ...answer, subscriber: kind, queue };
  });

/** Who is known, and does not get this event, is left out; a name that nobody has is a mistake. */
async function checkNames(store: Store, event: string, to: readonly string[]): Promise<void> {
  const names = new Set((await list(store, event)).map(({ kind }) => kind));
  for (const name of to) if (!names.has(name)) await refuse(store, event, name);
}

function read(event: EventDefinition | string, options: PublishOptions | undefined) {
  const contract = resolveEvent(event);
  const check = new OptionsCheck(`options of publish "${contract.event}"`);
  const given: Record<string, unknown> =
    options !== undefined && check.object("", options, KEYS) ? { ...options } : {};
  const { routingKey } = given;
  if (routingKey !== undefined && !isRoutingKey(routingKey))
    check.expected("routingKey", ROUTING_KEY_FORM, routingKey);
  const to = parseNames(check, given.to);
  const parsed = parseTimeAndKey(check, given);
  check.done();
  return { contract, routingKey: (routingKey as string | undefined) ?? null, to, parsed };
}

const MOST_NAMES = 1_000;

/** Null: all. */
function parseNames(check: OptionsCheck, value: unknown): readonly string[] | null {
  if (value === undefined) return null;
  const names: unknown[] = Array.isArray(value) ? value : [value];
  if (names.length > 0 && names.length <= MOST_NAMES && names.every(isName))
    return [...new Set(names)];
  check.expected("to", `the name of a subscriber, or a list of 1..${MOST_NAMES}`, value);
  return null;
}
