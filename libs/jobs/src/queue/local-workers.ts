import type { LocalControl } from "./control-hints.js";
import type { Listener } from "../pg/listener.js";
import type { Wake } from "./hints.js";

/** The workers of this process: a job that they can start at once needs no NOTIFY. */
export class LocalWorkers implements Wake, LocalControl {
  readonly #workers = new Set<Wake & LocalControl>();
  /** Whether this process has ever had one. */
  any = false;

  add(worker: Wake & LocalControl): void {
    this.any = true;
    this.#workers.add(worker);
  }

  remove(worker: Wake & LocalControl): void {
    this.#workers.delete(worker);
  }

  get listener(): Listener | undefined {
    for (const { listener } of this.#workers) if (listener) return listener;
    return undefined;
  }

  wake(queueId: number, kind: string, behind: boolean): boolean {
    for (const worker of this.#workers) if (worker.wake(queueId, kind, behind)) return true;
    return false;
  }

  control(worker: number): boolean {
    for (const one of this.#workers) if (one.control(worker)) return true;
    return false;
  }

  changed(): void {
    for (const worker of this.#workers) worker.changed();
  }
}
