import { parseCron } from "../job/cron.js";
import type { Definition, InputOf } from "../job/definition.js";
import type { Enqueued } from "../job/enqueued.js";
import { ScheduleDeclaredError, UnknownScheduleError } from "../job/errors.js";
import { formatJobId } from "../job/job-id.js";
import { OptionsCheck, describe, isName, nearest, readable } from "../job/options-check.js";
import { type PauseOptions, parsePause } from "../job/pause.js";
import { type ScheduleOptions, parseSchedule } from "../job/schedule.js";
import { nextTick } from "../job/ticks.js";
import { TimeZone } from "../job/time-zone.js";
import type { Events } from "../observe/events.js";
import { newest, pause, remove, resume, runOnce } from "../store/schedules/control.js";
import { clock } from "../store/schedules/declare.js";
import {
  SCHEDULES_SINCE,
  type ScheduleView,
  findByName,
  list,
} from "../store/schedules/schedule.js";
import { type Store, isOutcomeUnknown } from "../store/store.js";
import { existing } from "../store/transitions/enqueue.js";
import { declareSchedule } from "./declare-schedule.js";
import { type Doing, type Meant, callerError, done } from "./failure.js";
import type { Hints } from "./hints.js";
import { again } from "./insert.js";

// Schedules, as callers see them. What is due is enqueued by the processes that have a worker.

/** So often somebody else may run it just then. */
const ROUNDS = 20;

/** What is enqueued at set times. */
export class JobSchedules {
  /** @internal Made by {@link JobQueue}. */
  constructor(
    private readonly store: Store,
    private readonly hints: Hints,
    private readonly events: Events,
    private readonly payloadLimit: number,
  ) {}

  /**
   * Makes a schedule, or changes the one of this name: from then on, a job at each tick. With another `cron` or
   * `timeZone` the first tick is the next one from now; else it keeps the one that it foresaw. What is paused stays so.
   * @throws OptionsError, PayloadInvalidError, NotJsonError, PayloadTooLargeError: nothing was changed.
   * @throws ScheduleDeclaredError when `@ScheduledJob` declares this name.
   */
  async upsert<D extends Definition | string>(
    name: string,
    definition: D,
    options: ScheduleOptions & { payload?: D extends string ? unknown : InputOf<D> },
  ): Promise<ScheduleView> {
    return await this.#checked("schedule", async () => {
      const { timetable, payload, call } = readable("options of a schedule", () =>
        parseSchedule(name, options),
      );
      // Before its queue and lane are made.
      const known = await this.#find(name);
      if (known?.service != null) throw new ScheduleDeclaredError(name, known.service);
      const wanted = { name, definition, payload, timetable, call, service: null };
      const { answer, before } = await declareSchedule(this.store, this.payloadLimit, wanted);
      if (answer === "refused") throw new ScheduleDeclaredError(name, before ?? "?");
      return await done(() => this.#view(name));
    });
  }

  /** All schedules, by name. */
  async list(): Promise<ScheduleView[]> {
    return await this.#checked("read", () => this.#list());
  }

  /** The schedule of this name; null when there is none. */
  async get(name: string): Promise<ScheduleView | null> {
    return await this.#checked("read", async () => (await this.#find(named(name))) ?? null);
  }

  /** It has no ticks until it is resumed, or `until`; they are not made up for. May be repeated. @throws UnknownScheduleError */
  async pause(name: string, options: PauseOptions = {}): Promise<ScheduleView> {
    return await this.#checked("schedule", async () => {
      const order = readable("options of pause", () => parsePause(options));
      if (!(await pause(this.store, named(name), order))) await this.#unknown(name);
      return await done(() => this.#view(name));
    });
  }

  /** It goes on, with the next tick from now. May be repeated. @throws UnknownScheduleError */
  async resume(name: string): Promise<ScheduleView> {
    return await this.#checked("schedule", async () => {
      named(name);
      for (let round = 1; round <= ROUNDS; round++) {
        const { cron, timeZone } = await this.#view(name);
        const [pattern, zone] = [parseCron(cron), TimeZone.of(timeZone)];
        if (Array.isArray(pattern) || typeof zone === "string") break;
        const next = nextTick(pattern, zone, await clock(this.store));
        const at = next === undefined ? undefined : new Date(next);
        if (await resume(this.store, { name, cron, timeZone }, at)) break;
      }
      return await done(() => this.#view(name));
    });
  }

  /**
   * Enqueues a job of it at once, also while it is paused; its ticks stay as they are.
   * @returns where `overlap` is `'skip'` and its newest job is not over, that one, with `deduplicated: true`.
   * @throws UnknownScheduleError, DatabaseUnavailableError
   */
  async runNow(name: string): Promise<Enqueued> {
    return await this.#checked("schedule", async () => {
      named(name);
      const job = { id: "" };
      await this.store.number([job]);
      for (let round = 1; round <= ROUNDS; round++) {
        const seen = (await newest(this.store, name)) ?? (await this.#unknown(name));
        const { queueId, kind, queue } = seen;
        if (seen.inTheWay) return { id: formatJobId(queueId, seen.id!), deduplicated: true };
        const meant = { queueId, job: { ...job, kind, key: null, payload: "" } };
        if (!(await this.#run(name, seen.id, meant))) continue;
        const id = formatJobId(queueId, job.id);
        if (this.events.heard("enqueued")) this.events.emit({ event: "enqueued", id, kind, queue });
        this.hints.hint(queueId, kind);
        return { id, deduplicated: false };
      }
      throw new Error(`the schedule "${name}" is run all the time`);
    });
  }

  /** Answers whether there was one. @throws ScheduleDeclaredError for one that code declares. */
  async remove(name: string): Promise<boolean> {
    return await this.#checked("schedule", async () => {
      if (await remove(this.store, named(name))) return true;
      const left = await this.#find(name);
      if (left) throw new ScheduleDeclaredError(name, left.service ?? "?");
      return false;
    });
  }

  /** Once, whatever happens to the connection. */
  async #run(name: string, newestId: string | null, meant: Meant): Promise<boolean> {
    const { queueId, job } = meant;
    const run = async () => await runOnce(this.store, name, newestId, job.id);
    try {
      return await run().catch(async (error: unknown) => {
        if (!isOutcomeUnknown(error)) throw error;
        return await again(this.store, error, async () => {
          const there = await existing(this.store, queueId, [job.id]);
          return there.size > 0 || (await run());
        });
      });
    } catch (error) {
      throw callerError(error, this.store.schema, "enqueue", [meant]);
    }
  }

  async #view(name: string): Promise<ScheduleView> {
    return (await this.#find(name)) ?? (await this.#unknown(name));
  }

  async #find(name: string): Promise<ScheduleView | undefined> {
    return await findByName(this.store, name, this.store.has(2));
  }

  async #list(): Promise<ScheduleView[]> {
    return await list(this.store, this.store.has(2));
  }

  async #unknown(name: string): Promise<never> {
    const names = (await this.#list()).map((one) => one.name);
    throw new UnknownScheduleError(describe(name), nearest(name, names));
  }

  async #checked<T>(doing: Doing, work: () => Promise<T>): Promise<T> {
    try {
      await this.store.needs(SCHEDULES_SINCE, "schedules");
      return await work();
    } catch (error) {
      throw callerError(error, this.store.schema, doing);
    }
  }
}

/** The same, or what is wrong with it. */
function named(name: string): string {
  const check = new OptionsCheck("name of a schedule");
  if (!isName(name)) check.expected("name", "1..64 characters without control characters", name);
  check.done();
  return name;
}
