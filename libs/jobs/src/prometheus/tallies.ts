import type { JobEvent } from "../job/event.js";
import { type Labels, OTHER } from "./labels.js";
import { Tally } from "./tally.js";

/** A tally for each queue and kind; what has no label value of its own shares one. */
export class Tallies implements Iterable<Tally> {
  readonly #byQueue = new Map<string, Map<string, Tally>>();

  constructor(private readonly labels: Labels) {}

  /** Its jobs run in this process: they are counted from 0 on, before the first one comes. */
  expect(kind: { readonly queue: string; readonly kind: string }): void {
    this.#of(kind).expect();
  }

  readonly hear = (event: JobEvent): void => {
    const known = this.#byQueue.get(event.queue)?.get(event.kind);
    (known ?? this.#of(event)).hear(event);
  };

  *[Symbol.iterator](): IterableIterator<Tally> {
    for (const kinds of this.#byQueue.values()) yield* kinds.values();
  }

  /** By label values, so that names without end do not fill the memory. */
  #of({ queue, kind }: Pick<JobEvent, "queue" | "kind">): Tally {
    const queueLabel = this.labels.queue(queue);
    const kindLabel = queueLabel === queue ? this.labels.kind(queue, kind) : OTHER;
    const kinds = this.#byQueue.get(queueLabel) ?? new Map<string, Tally>();
    this.#byQueue.set(queueLabel, kinds);
    const tally = kinds.get(kindLabel) ?? new Tally(queueLabel, kindLabel);
    kinds.set(kindLabel, tally);
    return tally;
  }
}
