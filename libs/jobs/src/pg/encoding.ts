import { sqlState } from "./sqlstate.js";
import { type Runner, Statement } from "./statement.js";

// A database whose encoding is not UTF8 translates what is sent to it, and refuses what it has no character for.

/** A character that the encoding of the database lacks, as the server names it. */
export interface Lacking {
  encoding: string;
  /** Absent when the server does not say which. */
  character?: string;
}

/** `untranslatable_character`, `character_not_in_repertoire`. */
const STATES = new Set(["22P05", "22021"]);

/** What the encoding of the database lacks, when that is what an error is about. */
export function lacking(error: unknown): Lacking | undefined {
  if (!STATES.has(sqlState(error) ?? "")) return undefined;
  const { message, detail } = error as { message: string; detail?: string };
  // The words are in the server's language, the names of encodings are not; the last one is the database's.
  const encoding = `${message} ${detail ?? ""}`.match(/\b[A-Z][A-Z0-9_]{2,}\b/g)?.at(-1);
  if (encoding === undefined || encoding === "UTF8") return undefined;
  const bytes = message.match(/0x[0-9a-f]{2}\b/g)?.map(Number) ?? [];
  const character = Buffer.from(bytes).toString("utf8");
  return /^.$/su.test(character) ? { encoding, character } : { encoding };
}

/** The text with a question mark for whatever this encoding might lack: most have ASCII in common. JSON stays JSON. */
export const fitting = (text: string, encoding: string): string =>
  // oxlint-disable-next-line no-control-regex -- all of ASCII, all of LATIN1
  text.replaceAll(encoding === "LATIN1" ? /[^\u0000-\u00ff]/gu : /[^\u0000-\u007f]/gu, "?");

const encodingOf = new Statement(null, () => "select current_setting('server_encoding')");
const translate = new Statement(null, () => "select octet_length($1::text)");

/** Finds out what a text lacks before it is sent to where a refusal would do harm. Text of ASCII alone asks nobody. */
export class Translation {
  #encoding: string | undefined;

  constructor(private readonly runner: Runner) {}

  /** The server's own error, when the database cannot have this text; nothing when nobody could say. */
  async refusal(text: string): Promise<Error | undefined> {
    // oxlint-disable-next-line no-control-regex -- all of ASCII
    if (/^[\u0000-\u007f]*$/.test(text)) return undefined;
    try {
      this.#encoding ??= (await this.runner.run(encodingOf))[0]![0]!;
      if (this.#encoding !== "UTF8") await this.runner.run(translate, [text]);
      return undefined;
    } catch (error) {
      return lacking(error) && (error as Error);
    }
  }
}
