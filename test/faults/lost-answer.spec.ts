import type { INestApplicationContext } from "@nestjs/common";
import {
  Events,
  JOB_EVENTS,
  type JobEventName,
  type JobQueue,
  bury,
  defineJob,
  skip,
  snooze,
} from "nestjs-pg-jobs";
import { handler, reached, row } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { TransitionLog, violations } from "../support/invariants.js";
import { until } from "../support/until.js";

const HOUR_MS = 3_600_000;
/** By then the next look of the worker waits for its answer too: it cannot claim the job again unheard. */
const SOON_MS = 1_500;
const RESUMES = { timeout: 30_000 };

const Work = defineJob<{ plain?: boolean }>("work");

interface Fate {
  verb: string;
  /** Stands in the text of its statement, and in no other's. */
  sql: string;
  /** How the first attempt ends. */
  end(delayMs: number, signal: AbortSignal): unknown;
  event: JobEventName;
  state: string;
  failures?: number;
  errors?: number;
}

const failure = new Error("failed");
const END: Fate[] = [
  {
    verb: "succeed",
    sql: "-- running -> succeeded",
    end: () => "done",
    event: "succeeded",
    state: "succeeded",
  },
  {
    verb: "skip",
    sql: "-- running -> skipped",
    end: () => skip("nothing to do"),
    event: "skipped",
    state: "skipped",
  },
  {
    verb: "bury",
    sql: "-- running -> dead",
    end: () => bury("no use"),
    event: "died",
    state: "dead",
    errors: 1,
  },
];
const PUT_BACK: Fate[] = [
  {
    verb: "retry",
    sql: "-- running -> queued: the attempt failed",
    end: () => Promise.reject(failure),
    event: "retried",
    state: "queued",
    failures: 1,
    errors: 1,
  },
  {
    verb: "snooze",
    sql: "-- running -> queued: later",
    end: (delayMs) => snooze(delayMs),
    event: "snoozed",
    state: "queued",
  },
];
const HAND_BACK: Fate = {
  verb: "hand-back",
  sql: "-- running -> queued: given back",
  end: (_, signal) =>
    new Promise((_resolve, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason as Error)),
    ),
  event: "handed-back",
  state: "queued",
};

/** Workers, what they ran and what they told of; the first attempt of the job ends as its fate says. */
class Scene {
  readonly starts: string[] = [];
  readonly told: string[] = [];

  private constructor(
    readonly bench: Bench,
    readonly log: TransitionLog,
    readonly fate: Fate,
    /** When the job is due again. */
    readonly delayMs: number,
  ) {}

  static async open(fate: Fate, delayMs: number): Promise<Scene> {
    const bench = await Bench.open();
    return new Scene(bench, await TransitionLog.install(bench), fate, delayMs);
  }

  async worker(name: string, url: string) {
    const { fate, delayMs, starts, told } = this;
    const work = handler(
      Work,
      ({ plain }, { attempt, signal }) => {
        starts.push(`${name} ${attempt}`);
        return plain || attempt > 1 ? "went on" : fate.end(delayMs, signal);
      },
      { backoff: { delay: () => delayMs } },
    );
    const app = await this.bench.worker([work], { grace: "100ms" }, { connection: { url } });
    app.get(Events).on(JOB_EVENTS, ({ event }) => {
      if (event !== "enqueued" && event !== "started") told.push(`${name} ${event}`);
    });
    return app;
  }

  /** The one job, settled under a worker that did not hear of it. */
  async settledUnheard(): Promise<{
    id: string;
    app: INestApplicationContext;
    jobs: JobQueue;
    /** The connection breaks, and new ones go through. */
    cut: () => void;
    closed: Promise<void> | undefined;
  }> {
    const { bench, fate } = this;
    const { proxy, url } = await bench.line();
    const jobs = await bench.producer();
    const app = await this.worker("one", url);
    proxy.muteFrom(fate.sql);
    const { id } = await jobs.enqueue(Work, {});
    const isHandBack = fate.event === "handed-back";
    if (isHandBack) await until(() => this.starts.length === 1, { what: "it runs" });
    const closed = isHandBack ? app.close() : undefined;
    await reached(bench, id, fate.state);
    await until(async () => proxy.mode === "mute" && proxy.held > 0, {
      what: "it is settled, and the answer under way",
    });
    const cut = () => {
      proxy.resetAll();
      proxy.setMode("pass");
    };
    return { id, app, jobs, cut, closed };
  }

  /** What is wrong in the tables, over all that happened. */
  async wrong(id: string): Promise<string[]> {
    return await violations(this.bench, { log: this.log, acknowledged: [id] });
  }

  async close(): Promise<void> {
    await this.log.remove();
    await this.bench.close();
  }
}

describe("a settle that was committed, and its answer lost", () => {
  let scene: Scene;
  afterEach(async () => await scene.close());

  it.each([...END, ...PUT_BACK])("$verb: counts once, and the worker goes on", async (fate) => {
    scene = await Scene.open(fate, HOUR_MS);
    const { id, jobs, cut } = await scene.settledUnheard();
    const before = await row(scene.bench, id);
    expect(scene.told).toEqual([]);
    cut();
    await until(() => scene.told.length > 0, { ...RESUMES, what: "it tells of it" });
    const { id: next } = await jobs.enqueue(Work, { plain: true });
    await reached(scene.bench, next, "succeeded", RESUMES);
    await until(() => scene.told.length > 1, { what: "it tells of that too" });
    expect(scene.told).toEqual([`one ${fate.event}`, "one succeeded"]);
    expect(scene.starts).toEqual(["one 1", "one 1"]);
    const after = await row(scene.bench, id);
    expect({ ...after, due_in: 0 }).toEqual({ ...before, due_in: 0 });
    expect(after).toMatchObject({ state: fate.state, attempt: 1, failures: fate.failures ?? 0 });
    const least = fate.state === "queued" ? HOUR_MS - 60_000 : Number.NEGATIVE_INFINITY;
    expect(after.due_in).toBeGreaterThan(least);
    expect(after.due_in).toBeLessThanOrEqual(HOUR_MS);
    await expectErrors(id, fate);
    expect(await scene.wrong(id)).toEqual([]);
  });

  it("hand-back: counts once, the drain ends, and the next worker runs it", async () => {
    scene = await Scene.open(HAND_BACK, 0);
    const { id, cut, closed } = await scene.settledUnheard();
    cut();
    await closed;
    expect(scene.told).toEqual(["one handed-back"]);
    expect(await row(scene.bench, id)).toMatchObject({ state: "queued", attempt: 1, failures: 0 });
    await scene.worker("two", scene.bench.url);
    const done = await reached(scene.bench, id, "succeeded", RESUMES);
    expect(done).toMatchObject({ attempt: 2, failures: 0, result: "went on" });
    expect(scene.starts).toEqual(["one 1", "two 2"]);
    expect(await scene.wrong(id)).toEqual([]);
  });

  it.each(PUT_BACK)(
    "$verb, and another worker has run the job since: that stays as it is",
    async (fate) => {
      scene = await Scene.open(fate, SOON_MS);
      const { id, jobs, cut } = await scene.settledUnheard();
      await scene.worker("two", scene.bench.url);
      await reached(scene.bench, id, "succeeded");
      await until(() => scene.told.length === 1, { what: "the other one tells of it" });
      const before = await scene.bench.sql("select * from jobs.done");
      cut();
      await until(() => scene.told.length > 1, { ...RESUMES, what: "the first one hears of it" });
      // A retry leaves an error behind by which it is known again; a snooze no trace once the job runs elsewhere.
      const heard = fate.verb === "retry" ? "retried" : "lost";
      expect(scene.told).toEqual(["two succeeded", `one ${heard}`]);
      expect(await scene.bench.sql("select * from jobs.done")).toEqual(before);
      expect(await row(scene.bench, id)).toMatchObject({
        state: "succeeded",
        attempt: 2,
        failures: fate.failures ?? 0,
        result: "went on",
      });
      expect(scene.starts).toEqual(["one 1", "two 2"]);
      await expectErrors(id, fate);
      expect(await scene.wrong(id)).toEqual([]);
      const { id: next } = await jobs.enqueue(Work, { plain: true });
      await reached(scene.bench, next, "succeeded", RESUMES);
    },
  );

  /** The one error of the one attempt that failed, no second one of a repeated settle. */
  async function expectErrors(id: string, { errors = 0 }: Fate): Promise<void> {
    const rows = await scene.bench.sql("select attempt from jobs.attempt_error where job_id = $1", [
      id.split("-")[1],
    ]);
    expect(rows).toEqual(Array.from({ length: errors }, () => ({ attempt: 1 })));
  }
});
