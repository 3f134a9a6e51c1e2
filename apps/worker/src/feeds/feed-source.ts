import { Injectable } from "@nestjs/common";
import { type FeedItem, FeedMalformedError, parseFeed } from "./feed.js";

/** The source does not answer, or says that it cannot now: later it may. */
export class SourceAwayError extends Error {
  override readonly name = "SourceAwayError";
}

/** The source answers that there is nothing for us. */
export class SourceRefusedError extends Error {
  override readonly name = "SourceRefusedError";
}

const MAX_BYTES = 1_048_576;
/** Of the others below 500 none goes away by waiting. */
const PASSING = new Set([408, 425, 429]);

/** Asks for feeds over HTTP. */
@Injectable()
export class FeedSource {
  /** @throws SourceAwayError, SourceRefusedError, FeedMalformedError; or the reason of the signal. */
  async read(url: string, { signal }: { signal: AbortSignal }): Promise<FeedItem[]> {
    const { status, body } = await this.#ask(url, signal);
    if (status >= 500 || PASSING.has(status))
      throw new SourceAwayError(`the source answered ${status}`);
    if (status < 200 || status > 299) throw new SourceRefusedError(`the source answered ${status}`);
    if (body === undefined)
      throw new FeedMalformedError(`expected a feed of at most ${MAX_BYTES} bytes, found more`);
    return parseFeed(body);
  }

  /** Whatever goes wrong before the answer is here, its last byte included: the source is away. */
  async #ask(url: string, signal: AbortSignal) {
    try {
      const response = await fetch(url, { signal, headers: { accept: "application/json" } });
      return { status: response.status, body: await textOf(response) };
    } catch (error) {
      signal.throwIfAborted();
      throw new SourceAwayError("the source does not answer", { cause: error });
    }
  }
}

/** Undefined when it is too long: then the rest is left where it is. */
async function textOf({ body }: Response): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > MAX_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
