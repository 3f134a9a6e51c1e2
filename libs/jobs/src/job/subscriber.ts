import { defineJob } from "./definition.js";
import { type EventDefinition, parseRoutingKeys, resolveEvent } from "./event-definition.js";
import { parseSubscriberOptions } from "./handler-options.js";
import { isName } from "./options-check.js";

const OWN = ["name", "routingKey", "queue", "priority"];

/** Where a subscriber stands. */
export interface SubscriberPlace {
  /** The service that its worker is of. */
  service: string;
  /** Class and method. */
  method: string;
}

/** What `@OnEvent` says: the contract of its deliveries, how they run, which events they are of. @throws OptionsError */
export function parseSubscriber(
  event: EventDefinition | string,
  options: unknown,
  { service, method }: SubscriberPlace,
) {
  const contract = resolveEvent(event);
  const subject = `@OnEvent on ${method}`;
  const { own, said } = parseSubscriberOptions(options, subject, OWN, (check, given) => {
    const kind = check.name("name", given.name) ?? `${contract.event}>${service}:${method}`;
    if (!isName(kind))
      check.add(
        `name: expected one for this subscriber, since event, service and method make ${JSON.stringify(kind)} of ` +
          `${[...kind].length} characters, and at most 64 fit; give it a name, or forWorker() a shorter service`,
      );
    return {
      kind,
      routingKeys: parseRoutingKeys(check, given.routingKey),
      queue: check.name("queue", given.queue) ?? "default",
      priority: check.integer("priority", given.priority, -100, 100) ?? 0,
    };
  });
  const { kind, routingKeys, queue, priority } = said;
  const payload = contract.payload;
  const definition =
    payload === null
      ? defineJob(kind, { queue, priority })
      : defineJob(kind, { queue, priority, payload });
  return { definition, own, subscription: { event: contract.event, routingKeys } };
}
