import type { JobEvent, JobEventName } from "../job/event.js";

/** Who wants to hear of events; is called after the commit. */
export type EventListener = (event: JobEvent) => void;

/** Whether an observer wants to hear of an event now. */
export type Attention = (name: JobEventName) => boolean;

const always: Attention = () => true;

/** Tells observers what has happened to jobs; their faults are theirs alone. */
export class Events {
  readonly #listeners = new Map<JobEventName, Map<EventListener, Attention>>();

  /** Whether anybody listens: an event that nobody hears need not be made. */
  heard(name: JobEventName): boolean {
    for (const attends of this.#listeners.get(name)?.values() ?? []) if (attends(name)) return true;
    return false;
  }

  /** Hears these events, as long as it `attends` to them; answers how to stop. */
  on(
    names: readonly JobEventName[],
    listener: EventListener,
    attends: Attention = always,
  ): () => void {
    for (const name of names) {
      const listeners = this.#listeners.get(name) ?? new Map<EventListener, Attention>();
      this.#listeners.set(name, listeners.set(listener, attends));
    }
    return () => names.forEach((name) => this.#listeners.get(name)?.delete(listener));
  }

  emit(event: JobEvent): void {
    for (const [listener, attends] of this.#listeners.get(event.event) ?? []) {
      try {
        if (attends(event.event)) listener(event);
      } catch {
        // An observer's fault is not the job's.
      }
    }
  }
}
