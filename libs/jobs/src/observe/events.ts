import type { JobEvent, JobEventName } from "../job/event.js";

/** Who wants to hear of events; is called after the commit. */
export type EventListener = (event: JobEvent) => void;

/** Tells observers what has happened to jobs; their faults are theirs alone. */
export class Events {
  readonly #listeners = new Map<JobEventName, Set<EventListener>>();

  /** Whether anybody listens: an event that nobody hears need not be made. */
  heard(name: JobEventName): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }

  /** Hears these events; answers how to stop. */
  on(names: readonly JobEventName[], listener: EventListener): () => void {
    for (const name of names) {
      const listeners = this.#listeners.get(name) ?? new Set();
      this.#listeners.set(name, listeners.add(listener));
    }
    return () => names.forEach((name) => this.#listeners.get(name)?.delete(listener));
  }

  emit(event: JobEvent): void {
    for (const listener of this.#listeners.get(event.event) ?? []) {
      try {
        listener(event);
      } catch {
        // An observer's fault is not the job's.
      }
    }
  }
}
