import type { EventDefinition } from "../job/event-definition.js";
import type { HandlerOptions } from "../job/handler-options.js";
import { marked } from "./job-handler.decorator.js";

/** The options of `@OnEvent`: how its deliveries run, like those of `@JobHandler`, and which it gets. */
export interface OnEventOptions extends HandlerOptions {
  /**
   * The kind of its deliveries, 1..64 characters: the stable name of this subscriber in all services, of which the one
   * that started last has it. Default: event, service, class and method, `order.placed>shop:Billing.charge`; then who
   * renames one of them makes another subscriber, and where they are longer than 64 characters the boot fails.
   */
  name?: string;
  /** Only events with this routing key, or one of these; absent: all. */
  routingKey?: string | readonly string[];
  /** The queue its deliveries wait in; default `'default'`. */
  queue?: string;
  /** Higher runs first; -100..100, default 0. */
  priority?: number;
}

/**
 * Makes a provider's method a subscriber: of each event that is published from the first start of its worker on it gets a
 * delivery, a job of its own with its own attempts, failures and dead letters.
 * @param event what `defineEvent` made, or the name alone.
 * @param options which events, and what holds for its deliveries; checked when the app boots.
 */
export const OnEvent = (
  event: EventDefinition | string,
  options: OnEventOptions = {},
): MethodDecorator => marked({ event, options });
