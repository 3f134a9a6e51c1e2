import { SetMetadata } from "@nestjs/common";
import type { Definition } from "../job/definition.js";
import type { EventDefinition } from "../job/event-definition.js";
import type { HandlerOptions } from "../job/handler-options.js";

// A fixed key: DiscoveryService.createDecorator() makes a random one for each copy of the package.
export const JOB_HANDLER = "nestjs-pg-jobs:handler";

/** Of a kind of jobs; or of an event, whose deliveries have a kind of their own. */
export type HandlerMetadata = (
  | {
      definition: Definition | string;
      options: HandlerOptions;
      /** Its options have a timetable too. */
      scheduled?: boolean;
    }
  | { event: EventDefinition | string; options: HandlerOptions }
) & {
  /** The method has another mark, which this one hides. */
  again?: boolean;
};

/** Marks a method; that it was marked before stays known. */
export const marked =
  (metadata: HandlerMetadata): MethodDecorator =>
  (target, method, descriptor) => {
    const again = Reflect.hasOwnMetadata(JOB_HANDLER, descriptor.value as object);
    return SetMetadata(JOB_HANDLER, again ? { ...metadata, again } : metadata)(
      target,
      method,
      descriptor,
    ) as void;
  };

/**
 * Makes a provider's method the handler of a kind of job: it gets the payload and the {@link JobContext}.
 * Its return value is stored as the result; an error is a failure; `snooze`, `skip` and `bury` may be returned or thrown.
 * @param definition what `defineJob` made, or the kind alone.
 * @param options what holds for its jobs unless call or definition say otherwise; checked when the app boots.
 */
export const JobHandler = (
  definition: Definition | string,
  options: HandlerOptions = {},
): MethodDecorator => marked({ definition, options });
