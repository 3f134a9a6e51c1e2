/** What shares one label value, because there are too many of it. */
export const OTHER = "other";

/** Gives queues and kinds label values of their own, as long as they are few: each of them costs Prometheus memory. */
export class Labels {
  readonly #queues = new Set<string>();
  readonly #kinds = new Map<string, Set<string>>();
  #pairs = 0;
  #told = false;

  constructor(
    /** The most queues, and the most pairs of queue and kind. */
    private readonly most: number,
    /** There are more; is told once. */
    private readonly beyond: (what: "queues" | "kinds") => void,
  ) {}

  queue(name: string): string {
    if (this.#queues.has(name)) return name;
    if (this.#queues.size >= this.most) return this.#other("queues");
    this.#queues.add(name);
    return name;
  }

  /** The kind in its queue. */
  kind(queue: string, name: string): string {
    const kinds = this.#kinds.get(queue);
    if (kinds?.has(name)) return name;
    if (this.#pairs >= this.most || this.queue(queue) !== queue) return this.#other("kinds");
    if (kinds) kinds.add(name);
    else this.#kinds.set(queue, new Set([name]));
    this.#pairs++;
    return name;
  }

  #other(what: "queues" | "kinds"): string {
    if (!this.#told) {
      this.#told = true;
      this.beyond(what);
    }
    return OTHER;
  }
}
