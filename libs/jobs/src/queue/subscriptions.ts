import { UnknownSubscriptionError } from "../job/errors.js";
import { type EventDefinition, resolveEvent } from "../job/event-definition.js";
import { OptionsCheck, isName, nearest, readable } from "../job/options-check.js";
import {
  EVENTS_SINCE,
  type SubscriptionView,
  list,
  remove,
} from "../store/events/subscriptions.js";
import type { Store } from "../store/store.js";

// Subscriptions, as callers see them. They are made by workers.

/** Those of an event, or all. */
export async function subscriptions(
  store: Store,
  event: EventDefinition | string | undefined,
): Promise<SubscriptionView[]> {
  const name = readable("event", () =>
    event === undefined ? undefined : resolveEvent(event).event,
  );
  await store.needs(EVENTS_SINCE, "events");
  return await list(store, name);
}

/** Takes one away; answers what it was. */
export async function unsubscribe(
  store: Store,
  event: EventDefinition | string,
  name: string,
): Promise<SubscriptionView> {
  const contract = readable("call of unsubscribe", () => resolveEvent(event));
  const check = new OptionsCheck("call of unsubscribe");
  if (!isName(name)) check.expected("name", "the name of a subscriber, 1..64 characters", name);
  check.done();
  await store.needs(EVENTS_SINCE, "events");
  const removed = await remove(store, contract.event, name);
  return removed ?? (await refuse(store, contract.event, name));
}

/** Says what is there instead: of this event a name that is alike, or this name of another event. */
export async function refuse(store: Store, event: string, name: string): Promise<never> {
  const all = await list(store);
  const names = all.filter((one) => one.event === event).map((one) => one.kind);
  const near = nearest(name, names);
  const elsewhere = all.find((one) => one.kind === name)?.event;
  throw new UnknownSubscriptionError(
    event,
    name,
    near !== undefined
      ? { event, name: near }
      : elsewhere !== undefined
        ? { event: elsewhere, name }
        : undefined,
  );
}
