import type { JobEvent } from "../job/event.js";

/** Who wants to hear of events; must not throw, and is called after the commit. */
export type EventListener = (event: JobEvent) => void;

/** Tells observers what has happened to jobs. An observer that throws is dropped out of the way of the jobs. */
export class Events {
  readonly #listeners = new Set<EventListener>();

  /** Whether anybody listens: without listeners no event needs to be made. */
  get heard(): boolean {
    return this.#listeners.size > 0;
  }

  on(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  emit(event: JobEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch {
        // An observer's fault is not the job's.
      }
    }
  }
}
