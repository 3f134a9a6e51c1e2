import { Injectable } from "@nestjs/common";
import type { Document } from "./keyword-index.js";

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

/** Stands for a vector store with the model before it: how often each letter occurs. */
@Injectable()
export class VectorIndex {
  /** What it answers instead of working; undefined: it works. */
  trouble: Error | undefined;
  readonly #vectors = new Map<string, { revision: number; vector: number[] }>();

  /** What comes late does not replace what is newer. */
  async put({ id, text, revision }: Document): Promise<void> {
    if (this.trouble) throw this.trouble;
    if (revision >= (this.#vectors.get(id)?.revision ?? 0))
      this.#vectors.set(id, { revision, vector: embed(text) });
  }

  has(id: string): boolean {
    return this.#vectors.has(id);
  }

  /** The record whose text is the most like this one. */
  nearest(text: string): string | undefined {
    const wanted = embed(text);
    const all = [...this.#vectors].map(([id, { vector }]) => ({
      id,
      like: cosine(vector, wanted),
    }));
    return all.toSorted((a, b) => b.like - a.like)[0]?.id;
  }
}

const embed = (text: string): number[] =>
  LETTERS.split("").map((letter) => text.toLowerCase().split(letter).length - 1);

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = a.reduce((sum, value, index) => sum + value * b[index]!, 0);
  return dot / (Math.hypot(...a) * Math.hypot(...b) || 1);
}
