import { Injectable } from "@nestjs/common";

export interface Document {
  id: string;
  text: string;
  /** One more with each change. */
  revision: number;
}

/** Stands for a search engine, which may be switched off. */
@Injectable()
export class KeywordIndex {
  available = true;
  readonly #documents = new Map<string, Document>();

  async ping(): Promise<boolean> {
    return this.available;
  }

  /** What comes late does not replace what is newer: two runs may overlap, and an old one may wake up again. */
  async put(document: Document): Promise<void> {
    const { id, revision } = document;
    if (revision >= (this.#documents.get(id)?.revision ?? 0)) this.#documents.set(id, document);
  }

  find(word: string): string[] {
    return [...this.#documents.values()]
      .filter(({ text }) => text.includes(word))
      .map(({ id }) => id);
  }
}
