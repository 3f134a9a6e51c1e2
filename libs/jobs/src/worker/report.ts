import { inspect } from "node:util";
import { safeText } from "../job/json.js";
import { fitting } from "../pg/encoding.js";

// What a running attempt has said of itself and is not written yet. It takes whatever it is given: progress that
// cannot be stored must not be what a job fails of.

export const MAX_LINES = 1_000;
export const MAX_BYTES = 64 * 1_024;
const MAX_LINE = 8_000;
const MAX_NOTE = 1_000;
const LIMIT_REACHED = `The log is full: an attempt keeps ${MAX_LINES} lines and ${MAX_BYTES / 1_024} kB, later ones are dropped.`;

export interface Line {
  line: number;
  /** Monotonic ms. */
  at: number;
  text: string;
}

/** What is to be written now. */
export interface Unwritten {
  progress: { percent: number; note: string | null } | null;
  lines: Line[];
}

export class Report {
  #percent = 0;
  #note: string | null = null;
  #moved = false;
  #lines: Line[] = [];
  #count = 0;
  #bytes = 0;
  #full = false;
  /** What was sent last may have been written, though its answer never came. */
  uncertain = false;
  /** That of a database which lacks a character of it: from then on it is written so that it fits. */
  encoding: string | undefined;

  get empty(): boolean {
    return !this.#moved && this.#lines.length === 0;
  }

  /** Characters that wait. */
  get size(): number {
    return this.#lines.reduce((sum, { text }) => sum + text.length, this.#note?.length ?? 0);
  }

  progress(percent: unknown, note: unknown): void {
    // 0/0 says nothing of how far it is, and nothing else is changed by what says nothing.
    if (typeof percent !== "number" || Number.isNaN(percent)) return;
    this.#percent = Math.min(100, Math.max(0, percent));
    // Long before it is cut: a note may be as long as the memory, a hundred thousand times a second.
    this.#note =
      note === undefined || note === null ? null : safeText(textOf(note, MAX_NOTE), MAX_NOTE);
    this.#moved = true;
  }

  log(line: unknown, now: number): void {
    if (this.#full) return;
    const text = safeText(textOf(line, MAX_LINE), MAX_LINE);
    const bytes = Buffer.byteLength(text);
    this.#full = this.#count === MAX_LINES || this.#bytes + bytes > MAX_BYTES;
    this.#bytes += bytes;
    this.#lines.push({ line: ++this.#count, at: now, text: this.#full ? LIMIT_REACHED : text });
  }

  take(): Unwritten {
    const { encoding } = this;
    const shown = (text: string) => (encoding === undefined ? text : fitting(text, encoding));
    const lines = this.#lines.map((line) => ({ ...line, text: shown(line.text) }));
    const note = this.#note === null ? null : shown(this.#note);
    const progress = this.#moved ? { percent: this.#percent, note } : null;
    this.#lines = [];
    this.#moved = false;
    return { progress, lines };
  }

  /** It was not written; what has been said since is newer. */
  putBack({ progress, lines }: Unwritten): void {
    this.#lines = [...lines, ...this.#lines];
    this.#moved ||= progress !== null;
  }
}

/** Text stays text; anything else is shown as console.log would. */
function textOf(value: unknown, max: number): string {
  if (typeof value === "string") return value.length > max + 1 ? value.slice(0, max + 1) : value;
  try {
    return inspect(value, { depth: 2, breakLength: Infinity, maxStringLength: max }).slice(
      0,
      max + 1,
    );
  } catch {
    return "something that cannot be shown";
  }
}
