import { Injectable } from "@nestjs/common";

/** What a source answers: a feed, or what goes wrong with feeds. */
export type NewsAnswer =
  | { status: "feed"; feed: object }
  | { status: "away" }
  | { status: "broken"; body: string };

const MINUTE_MS = 60_000;
const SHOWN = 5;

/**
 * Stands for somebody else's server: it has an item for each minute and shows the last five. Every fourth time it is
 * asked it is overloaded, and every tenth time its answer is cut off.
 */
@Injectable()
export class News {
  #asked = 0;

  answer(): NewsAnswer {
    const asked = ++this.#asked;
    const feed = { version: "https://jsonfeed.org/version/1.1", title: "News", items: newest() };
    if (asked % 10 === 0) return { status: "broken", body: JSON.stringify(feed).slice(0, 100) };
    return asked % 4 === 0 ? { status: "away" } : { status: "feed", feed };
  }
}

function newest(): { id: string; title: string; date_published: string }[] {
  const minute = Math.floor(Date.now() / MINUTE_MS);
  return Array.from({ length: SHOWN }, (_, age) => {
    const at = new Date((minute - age) * MINUTE_MS).toISOString();
    return { id: `news-${minute - age}`, title: `What happened at ${at}`, date_published: at };
  });
}
