import { Injectable } from "@nestjs/common";
import type { JobContext } from "nestjs-pg-jobs";
import type { FeedItem } from "./feed.js";

/** The database did not take the items: later it may. */
export class ItemsNotStoredError extends Error {
  override readonly name = "ItemsNotStoredError";
}

/** The items that were found in the feeds, each of them once. */
@Injectable()
export class FeedStore {
  /** Ends the attempt: its success and the items that are new are one commit. */
  async keep(source: string, items: readonly FeedItem[], job: JobContext) {
    try {
      return await job.transaction(async (client) => {
        // in one order, so that two attempts that overlap wait for each other and never both
        const { rowCount } = await client.query(
          `insert into samples.feed_item (source, id, title, job_id)
           select $1, item.id, item.title, $4 from unnest($2::text[], $3::text[]) item (id, title)
           order by item.id
           on conflict do nothing`,
          [source, items.map(({ id }) => id), items.map(({ title }) => title), job.id],
        );
        return { items: items.length, stored: rowCount ?? 0 };
      });
    } catch (cause) {
      throw new ItemsNotStoredError("the items could not be stored", { cause });
    }
  }
}
