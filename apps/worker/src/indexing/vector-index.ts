import { Injectable } from "@nestjs/common";
import type { Document } from "./keyword-index.js";

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

/** Stands for a vector store with the model before it: how often each letter occurs. */
@Injectable()
export class VectorIndex {
  /** What it answers instead of working; undefined: it works. */
  trouble: Error | undefined;
  /** Without a vector: it was taken out at this revision. */
  readonly #entries = new Map<string, { revision: number; vector?: number[] }>();

  /** What comes late does not replace what is newer. */
  async put({ id, text, revision }: Document): Promise<void> {
    if (this.trouble) throw this.trouble;
    if (this.#isNew({ id, revision })) this.#entries.set(id, { revision, vector: embed(text) });
  }

  /** Nor does it bring back what was taken out since. */
  async remove({ id, revision }: Pick<Document, "id" | "revision">): Promise<void> {
    if (this.trouble) throw this.trouble;
    if (this.#isNew({ id, revision })) this.#entries.set(id, { revision });
  }

  has(id: string): boolean {
    return this.#entries.get(id)?.vector !== undefined;
  }

  /** The record whose text is the most like this one. */
  nearest(text: string): string | undefined {
    const wanted = embed(text);
    const all = [...this.#entries].flatMap(([id, { vector }]) =>
      vector ? [{ id, like: cosine(vector, wanted) }] : [],
    );
    return all.toSorted((a, b) => b.like - a.like)[0]?.id;
  }

  #isNew({ id, revision }: Pick<Document, "id" | "revision">): boolean {
    return revision >= (this.#entries.get(id)?.revision ?? 0);
  }
}

const embed = (text: string): number[] =>
  LETTERS.split("").map((letter) => text.toLowerCase().split(letter).length - 1);

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = a.reduce((sum, value, index) => sum + value * b[index]!, 0);
  return dot / (Math.hypot(...a) * Math.hypot(...b) || 1);
}
