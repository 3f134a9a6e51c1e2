import { Controller, Headers, type MessageEvent, Param, Sse } from "@nestjs/common";
import { JobInspector } from "nestjs-pg-jobs";
import { type Observable, finalize, from, map } from "rxjs";

@Controller("jobs")
export class JobNewsController {
  constructor(private readonly inspector: JobInspector) {}

  @Sse(":id/news")
  news(
    @Param("id") id: string,
    @Headers("last-event-id") after?: string,
  ): Observable<MessageEvent> {
    const news = this.inspector.follow(id, { after: after || undefined });
    // The line that was told last: Nest would number messages without an id.
    let last = after ?? "";
    return from(news).pipe(
      map((one) => ({
        type: one.type,
        data: one,
        id: (last = one.type === "log" ? one.after : last),
      })),
      // The client has gone: rxjs itself would wait for the next news.
      finalize(() => void news.return(undefined)),
    );
  }
}
