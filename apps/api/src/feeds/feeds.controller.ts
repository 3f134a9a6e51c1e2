import { Controller, Get, Header, ServiceUnavailableException } from "@nestjs/common";
import { News } from "./news.js";

/** A source for the worker's feeds, so that they need no network. */
@Controller("feeds")
export class FeedsController {
  constructor(private readonly news: News) {}

  @Get("news")
  @Header("content-type", "application/feed+json; charset=utf-8")
  @Header("cache-control", "no-store")
  read(): object | string {
    const answer = this.news.answer();
    switch (answer.status) {
      case "away":
        throw new ServiceUnavailableException("overloaded");
      case "broken":
        return answer.body;
      case "feed":
        return answer.feed;
    }
  }
}
