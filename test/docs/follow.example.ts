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
    const news = this.inspector.follow(id, { after });
    return from(news).pipe(
      map((one) => ({ type: one.type, data: one, id: one.type === "log" ? one.after : undefined })),
      // The client has gone: rxjs itself would wait for the next news.
      finalize(() => void news.return(undefined)),
    );
  }
}
