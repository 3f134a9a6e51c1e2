import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** What a source says when it is asked for the nth time, 1 the first. */
type Answers = (response: ServerResponse, asked: number) => void;

/** Sources on loopback that answer as a spec has them do. */
export class FeedServer {
  /** No other spec has sources by these names. */
  readonly #run = randomUUID();
  readonly #answers = new Map<string, Answers>();
  readonly #asked = new Map<string, number>();

  private constructor(private readonly server: Server) {
    server.on("request", ({ url }: { url: string }, response: ServerResponse) => {
      const asked = this.asked(url) + 1;
      this.#asked.set(url, asked);
      this.#answers.get(url)!(response, asked);
    });
  }

  static async start(): Promise<FeedServer> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new FeedServer(server);
  }

  /** A source by this name. @returns its URL */
  add(name: string, answers: Answers): string {
    const path = `/${this.#run}/${name}`;
    this.#answers.set(path, answers);
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}${path}`;
  }

  /** How often a source was asked. */
  asked(url: string): number {
    return this.#asked.get(url.slice(url.lastIndexOf("/", url.lastIndexOf("/") - 1))) ?? 0;
  }

  async close(): Promise<void> {
    this.server.close();
    this.server.closeAllConnections();
    await once(this.server, "close");
  }
}

/** The body of a feed with these items. */
export const feedOf = (...ids: string[]): string =>
  JSON.stringify({ title: "A feed", items: ids.map((id) => ({ id, title: `What ${id} says` })) });

export const overloaded = (response: ServerResponse): void =>
  void response.writeHead(503).end("overloaded");
