import type { Definition } from "../job/definition.js";
import type { ParsedTimetable } from "../job/schedule.js";
import { keep } from "../store/schedules/keep.js";
import { SCHEDULES_SINCE } from "../store/schedules/schedule.js";
import type { Store } from "../store/store.js";
import { declareSchedule } from "./declare-schedule.js";

// The schedules that the code of a worker declares: made when it starts, kept while it lives, and retired by their own
// service when no process of it declares them any more.

export interface DeclaredSchedule {
  definition: Definition;
  timetable: ParsedTimetable;
  payload: unknown;
}

export interface DeclaredPorts {
  store: Store;
  payloadLimit: number;
  service: string;
  readonly log: (level: "log" | "warn", message: string, params: object) => void;
}

const KEEP_EVERY_MS = 60_000;

export class DeclaredSchedules {
  readonly #undeclared: Map<string, DeclaredSchedule>;
  #keptAt = Number.NEGATIVE_INFINITY;
  #told = false;
  /** The schema has schedules, and our role may write them. */
  ready = false;

  constructor(
    private readonly all: readonly DeclaredSchedule[],
    private readonly ports: DeclaredPorts,
  ) {
    this.#undeclared = new Map();
    this.forget();
  }

  /** The tables are others: all is declared again. */
  forget(): void {
    for (const one of this.all) this.#undeclared.set(one.definition.kind, one);
    this.#keptAt = Number.NEGATIVE_INFINITY;
    this.ready = false;
  }

  /** Declares what is not declared yet; says once a minute that it still is. */
  async keep(): Promise<void> {
    const { store, service, log } = this.ports;
    if (!(await store.offers(SCHEDULES_SINCE))) return this.#tellOfOldSchema();
    for (const one of this.#undeclared.values()) await this.#declare(one);
    if (performance.now() - this.#keptAt < KEEP_EVERY_MS) return;
    const names = this.all.map(({ definition }) => definition.kind);
    for (const { name, retired } of await keep(store, service, names)) {
      const params = { schedule: name, service };
      if (retired) log("log", "A schedule that nobody declares any more is retired", params);
      else log("warn", "A schedule is not declared any more: it will be retired", params);
    }
    this.#keptAt = performance.now();
    this.ready = true;
  }

  async #declare(one: DeclaredSchedule): Promise<void> {
    const { store, payloadLimit, service, log } = this.ports;
    const { kind: name } = one.definition;
    const wanted = { name, ...one, call: undefined, service };
    const { answer, before } = await declareSchedule(store, payloadLimit, wanted);
    // A tick came while it was declared, each time: at the next beat.
    if (answer !== "declared") return;
    this.#undeclared.delete(name);
    if (before !== undefined && before !== service)
      log("warn", "A schedule of the same name is taken over", {
        schedule: name,
        service,
        before: before ?? "jobs.schedules.upsert()",
      });
  }

  #tellOfOldSchema(): void {
    if (this.#told || this.all.length === 0) return;
    this.#told = true;
    this.ports.log("warn", 'Schedules wait for a newer schema: run "pg-jobs migrate"', {
      schedules: this.all.map(({ definition }) => definition.kind),
    });
  }
}
