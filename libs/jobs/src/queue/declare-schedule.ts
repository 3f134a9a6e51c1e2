import type { Definition } from "../job/definition.js";
import type { EnqueueOptions } from "../job/enqueue-options.js";
import type { ParsedTimetable } from "../job/schedule.js";
import { nextTick } from "../job/ticks.js";
import { type Declared, clock, declare } from "../store/schedules/declare.js";
import type { Store } from "../store/store.js";
import { address } from "./call.js";

/** A schedule as code or a call wants it. */
export interface WantedSchedule {
  name: string;
  definition: Definition | string;
  payload: unknown;
  timetable: ParsedTimetable;
  /** What it says to each call of its own. */
  call: EnqueueOptions | undefined;
  /** Whose code declares it; null: nobody's. */
  service: string | null;
}

/** A tick that comes just while it is declared is reckoned anew. */
const ROUNDS = 5;

/** Makes a schedule, or changes the one of this name. */
export async function declareSchedule(
  store: Store,
  payloadLimit: number,
  wanted: WantedSchedule,
): Promise<Declared> {
  const { name, timetable, service } = wanted;
  const { cron, zone, overlap, misfire } = timetable;
  const called = await address(store, payloadLimit, wanted.definition, wanted.payload, wanted.call);
  const { queueId, job } = called;
  for (let round = 1; ; round++) {
    const next = nextTick(cron, zone, await clock(store));
    const { lane, kind, attempts, timeoutMs, payload } = job;
    const declared = await declare(
      store,
      {
        name,
        queueId,
        lane,
        kind,
        cron: cron.text,
        timeZone: zone.name,
        overlap,
        misfire,
        attempts,
        timeoutMs,
        payload,
        service,
      },
      next === undefined ? undefined : new Date(next),
    );
    if (declared.answer !== "late" || round === ROUNDS) return declared;
  }
}
