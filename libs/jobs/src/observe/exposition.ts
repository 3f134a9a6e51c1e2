/** What an app tells whoever scrapes it; the health server of a worker serves it as `/metrics`. */
export abstract class Exposition {
  /** The `content-type` of the text. */
  abstract readonly contentType: string;

  /** All metrics as they are now. Rejects when one cannot be read that is not ours. */
  abstract text(): Promise<string>;
}
