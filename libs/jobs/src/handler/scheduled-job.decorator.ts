import type { Definition } from "../job/definition.js";
import type { HandlerOptions } from "../job/handler-options.js";
import type { Timetable } from "../job/schedule.js";
import { marked } from "./job-handler.decorator.js";

/** The options of `@ScheduledJob`. */
export interface ScheduledJobOptions extends Timetable, HandlerOptions {
  /** The payload of each of its jobs; default `{}`. */
  payload?: unknown;
}

/**
 * Makes a provider's method the handler of a kind of job, and has such a job enqueued at each tick of `cron`, once for all
 * processes. The schedule has the name of the kind; `job.schedule.tick` says which tick a run is for.
 * @param definition what `defineJob` made, or the kind alone, then in queue `'default'`.
 * @param options when it is due, and what holds for its jobs; checked when the app boots.
 */
export const ScheduledJob = (
  definition: Definition | string,
  options: ScheduledJobOptions,
): MethodDecorator => marked({ definition, options, scheduled: true });
