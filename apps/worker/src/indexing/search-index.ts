import { Injectable } from "@nestjs/common";

/** Stands for a search engine, which may be switched off. */
@Injectable()
export class SearchIndex {
  available = true;
  readonly #texts = new Map<string, string>();

  async ping(): Promise<boolean> {
    return this.available;
  }

  async put(recordId: string, text: string): Promise<void> {
    this.#texts.set(recordId, text);
  }

  find(word: string): string[] {
    return [...this.#texts].filter(([, text]) => text.includes(word)).map(([id]) => id);
  }
}
