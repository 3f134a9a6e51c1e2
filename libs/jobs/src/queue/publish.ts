import { defineJob } from "../job/definition.js";
import type { Duration } from "../job/duration.js";
import type { Enqueued } from "../job/enqueued.js";
import { type OnConflict, parseEnqueueOptions } from "../job/enqueue-options.js";
import {
  type EventDefinition,
  ROUTING_KEY_FORM,
  isRoutingKey,
  resolveEvent,
} from "../job/event-definition.js";
import { OptionsCheck, readable } from "../job/options-check.js";
import { validate } from "../job/standard-schema.js";
import { EVENTS_SINCE, subscribers } from "../store/events/subscriptions.js";
import type { Store } from "../store/store.js";
import { type Addressed, payloadText } from "./call.js";

/** The options of one `publish`. */
export interface PublishOptions {
  /** Of subscribers that name routing keys those that name this one get it; 1..256 characters. Absent: none of them. */
  routingKey?: string;
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

const KEYS = ["routingKey", "delay", "at", "key", "window", "onConflict"];

/** Checks a call and finds the jobs that are to be made, one for each subscriber. */
export async function addressEvent(
  store: Store,
  payloadLimit: number,
  event: EventDefinition | string,
  payload: unknown,
  options: PublishOptions | undefined,
): Promise<Addressed[]> {
  const { contract, routingKey, parsed } = readable("call of publish", () => read(event, options));
  const name = contract.event;
  if (contract.payload !== null) await validate(contract.payload, payload, name);
  const text = payloadText(name, payload, payloadLimit);
  await store.needs(EVENTS_SINCE, "events");
  if (parsed.unique) await store.needs(2, "windows and conflicts of keys");
  const found = await store.guard(() => subscribers(store.session, name, routingKey));
  const { delayMs, at, key, unique } = parsed;
  const all: Addressed[] = [];
  for (const { kind, queue, priority } of found) {
    const lane = await store.lane(queue, kind, priority);
    const job = { id: "", queue, lane: lane.lane, kind, priority, delayMs, at, key, unique };
    const rest = { attempts: null, timeoutMs: null, payload: text };
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

function read(event: EventDefinition | string, options: PublishOptions | undefined) {
  const contract = resolveEvent(event);
  const check = new OptionsCheck(`options of publish "${contract.event}"`);
  const given: PublishOptions =
    options !== undefined && check.object("", options, KEYS) ? (options as PublishOptions) : {};
  const { routingKey, ...rest } = given;
  if (routingKey !== undefined && !isRoutingKey(routingKey))
    check.expected("routingKey", ROUTING_KEY_FORM, routingKey);
  check.done();
  const parsed = parseEnqueueOptions(defineJob(contract.event), rest);
  return { contract, routingKey: routingKey ?? null, parsed };
}
