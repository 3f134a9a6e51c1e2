import { Headers, type MessageEvent } from "@nestjs/common";
import type { Observable } from "rxjs";
import { type AdminOperator, Asker } from "../auth/operator.js";
import { AdminController } from "../operation/admin-controller.decorator.js";
import { Serves } from "../operation/operation.js";
import { ProblemException } from "../problem.js";
import { followEvents } from "./events.operations.js";
import { News } from "./news.js";

@AdminController()
export class EventsController {
  constructor(private readonly news: News) {}

  @Serves(followEvents)
  follow(
    @Asker() { name }: AdminOperator,
    @Headers("last-event-id") last?: string,
  ): Observable<MessageEvent> {
    return this.news.watch(name, timeOf(last));
  }
}

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

/** Of the event with this id, by the database's clock. */
function timeOf(last: string | undefined): Date | undefined {
  if (last === undefined || last === "") return undefined;
  const time = TIME.test(last) ? new Date(last) : undefined;
  // Date reads the 31st of February as a day of March
  if (time && !Number.isNaN(time.getTime()) && time.toISOString() === last && time.getTime() > 0)
    return time;
  throw new ProblemException(
    400,
    "LAST_EVENT_ID_INVALID",
    `Expected Last-Event-ID to be the id of an event of this stream, such as 2026-11-19T22:00:00.000Z, found ${JSON.stringify(last.slice(0, 64))}. Leave it out to begin anew.`,
  );
}
