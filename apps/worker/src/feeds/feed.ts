import { z } from "zod";

/** What a source has answered is no feed. */
export class FeedMalformedError extends Error {
  override readonly name = "FeedMalformedError";
}

/** A text that PostgreSQL can keep. */
const text = (most: number) =>
  z
    .string()
    .min(1)
    .max(most)
    .refine((value) => value.isWellFormed() && !value.includes("\0"), {
      error: "expected a text that can be stored",
    });

/** What we need of a JSON Feed (jsonfeed.org). */
const Feed = z.object({
  items: z.array(z.object({ id: text(200), title: text(500) })).max(1_000),
});
export type FeedItem = z.output<typeof Feed>["items"][number];

/** The items of a feed. @throws FeedMalformedError */
export function parseFeed(body: string): FeedItem[] {
  const { success, data, error } = Feed.safeParse(parseJson(body));
  if (success) return data.items;
  const { path, message } = error.issues[0]!;
  throw new FeedMalformedError(`expected a JSON feed; ${path.join(".") || "body"}: ${message}`);
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (cause) {
    throw new FeedMalformedError("expected a JSON feed, found no JSON", { cause });
  }
}
