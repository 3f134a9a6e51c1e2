import { type HistoryEvent, JobInspector, type JobQueue } from "nestjs-pg-jobs";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import type { Claim } from "../../libs/jobs/src/store/transitions/claim.js";
import { applyQueueSettings } from "../../libs/jobs/src/store/queues/settings.js";
import { QUARANTINED } from "../../libs/jobs/src/store/queues/lanes.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { cancelHeld } from "../../libs/jobs/src/store/transitions/cancel.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import type { Writes } from "../../libs/jobs/src/store/transitions/noted.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { skip } from "../../libs/jobs/src/store/transitions/skip.js";
import { snooze } from "../../libs/jobs/src/store/transitions/snooze.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { Bench } from "../support/harness.js";
import { Hands, from } from "../support/hands.js";

// The story of a job, read back, is what happened to it: written where it leaves no trace, derived where it does.

const MODES = ["full", "exceptions", "none"] as const;
type Mode = (typeof MODES)[number];
let bench: Bench;
let jobs: JobQueue;
let inspector: JobInspector;
let session: Session;
beforeAll(async () => {
  bench = await Bench.open();
  const app = await bench.app([bench.root()]);
  inspector = app.get(JobInspector);
  jobs = await bench.producer();
  session = bench.session("settle");
});
afterAll(async () => await bench.close());

/** One job, and what its story must be. */
class Life {
  readonly told: string[] = ["1/0 enqueued"];
  #claim: Claim | undefined;
  #generation = 1;
  #attempt = 0;
  readonly #writes: Writes;
  #ended: "dead" | "cancelled" | "finished" | undefined;

  private constructor(
    readonly hands: Hands,
    readonly id: string,
    readonly worker: number,
    mode: Mode,
  ) {
    this.#writes = { history: true, full: mode === "full" };
  }

  static async begin(queue: string, mode: Mode): Promise<Life> {
    const hands = await Hands.open(bench, queue, "work", 0, session);
    const settings = { history: mode, archiveDeadMs: null, pruneDeadMs: null };
    await applyQueueSettings(hands.session, hands.queueId, settings);
    return new Life(hands, await hands.add(), await hands.worker(), mode);
  }

  get name(): string {
    return this.hands.named(this.id);
  }

  /** What can happen to it now. */
  get verbs(): Verb[] {
    if (this.#ended === "finished") return [];
    if (this.#ended !== undefined) return ["requeue"];
    return this.#claim ? RUNNING : WAITING;
  }

  async do(verb: Verb): Promise<void> {
    const { hands, id, worker } = this;
    const writes = this.#writes;
    const fence = { id, attempt: this.#attempt };
    const settle = [hands.session, hands.queueId, worker] as const;
    const error = JSON.stringify({ name: "Error", message: `attempt ${this.#attempt}` });
    switch (verb) {
      case "claim":
      case "crash": {
        if (verb === "crash") await hands.expire(id);
        else await bench.sql("update jobs.job set run_at = now() where id = $1", [id]);
        const lanes = [from(hands.lane), from(hands.lane + QUARANTINED)];
        [this.#claim] = await hands.claim(worker, { lanes, takeOver: true, writes });
        this.#attempt = this.#claim!.attempt;
        if (verb === "crash") this.#tell("rescued");
        return this.#tell("started");
      }
      case "succeed":
        await succeed(...settle, [{ ...fence, result: "1" }], writes);
        return this.#end("finished", "succeeded");
      case "skip":
        await skip(...settle, [{ ...fence, result: '{"reason":"nothing to do"}' }], writes);
        return this.#end("finished", "skipped");
      case "snooze":
        await snooze(...settle, [{ ...fence, delayMs: 5_000 }], writes);
        return this.#put("snoozed");
      case "retry":
        await retry(...settle, [{ ...fence, delayMs: 0, error }], writes);
        return this.#put("retried");
      case "hand back": {
        const quarantine = Math.random() < 0.5;
        await handBack(...settle, [{ ...fence, started: true, quarantine }], writes);
        return this.#put("handed-back");
      }
      case "bury":
        await bury(...settle, [{ ...fence, error, reason: "exhausted", failed: true }], writes);
        return this.#end("dead", "died");
      case "cancel":
        return this.#end("cancelled", await jobs.cancel(this.name));
      case "cancel and fail":
        // However often it is asked for.
        await jobs.cancel(this.name);
        this.#tell(`cancel-${await jobs.cancel(this.name)}`);
        await cancelHeld(...settle, [{ ...fence, error }]);
        return this.#end("cancelled", "cancelled");
      case "requeue":
        if ((await jobs.requeue(this.name)) === "queued") this.#generation++;
        this.#ended = undefined;
        return this.#tell("requeued");
    }
  }

  #put(event: string): void {
    this.#claim = undefined;
    this.#tell(event);
  }

  #end(how: "dead" | "cancelled" | "finished", event: string): void {
    this.#ended = how;
    this.#put(event);
  }

  #tell(event: string): void {
    this.told.push(`${this.#generation}/${this.#attempt} ${event}`);
  }
}

type Verb =
  | "claim"
  | "crash"
  | "succeed"
  | "skip"
  | "snooze"
  | "retry"
  | "hand back"
  | "bury"
  | "cancel"
  | "cancel and fail"
  | "requeue";

const WAITING: Verb[] = ["claim", "cancel"];
const RUNNING: Verb[] = [
  "succeed",
  "skip",
  "snooze",
  "retry",
  "bury",
  "hand back",
  "crash",
  "cancel and fail",
];

const briefly = (events: readonly HistoryEvent[]) =>
  events.map(({ generation, attempt, event }) => `${generation}/${attempt} ${event}`);

const written = async (id: string) =>
  (
    await bench.sql<{ event: string }>(
      "select event from jobs.event where job_id = $1 order by generation, attempt, at, event",
      [id],
    )
  ).map(({ event }) => event);

/** Every way through the states, so many verbs long. */
async function ways(length: number): Promise<Verb[][]> {
  const next = (way: readonly Verb[]): Verb[] => {
    const last = way.at(-1);
    if (last === "succeed" || last === "skip") return [];
    if (last === "bury" || last === "cancel" || last === "cancel and fail") return ["requeue"];
    return last === "claim" || last === "crash" ? RUNNING : WAITING;
  };
  let open: Verb[][] = [[]];
  const done: Verb[][] = [];
  for (let step = 0; step < length; step++) {
    open = open.flatMap((way) => {
      const verbs = next(way);
      if (verbs.length === 0) done.push(way);
      return verbs.map((verb) => [...way, verb]);
    });
  }
  return [...done, ...open];
}

describe.each(["full", "exceptions"] as const)("in mode %s", (mode) => {
  it("each way of four verbs through the states is read back as it happened", async () => {
    const all = await ways(4);
    expect(all.length).toBeGreaterThan(50);
    for (const [index, way] of all.entries()) {
      const life = await Life.begin(`${mode}-${index}`, mode);
      for (const verb of way) {
        await life.do(verb);
        expect({ way, told: briefly(await inspector.history(life.name)) }).toEqual({
          way,
          told: life.told,
        });
      }
    }
  });

  it("so are long lives", async () => {
    for (let n = 0; n < 8; n++) {
      const life = await Life.begin(`${mode}-long-${n}`, mode);
      for (let step = 0; step < 25; step++) {
        const verbs = life.verbs.filter((verb) => verb !== "succeed" && verb !== "skip");
        await life.do(verbs[Math.floor(Math.random() * verbs.length)]!);
      }
      expect(briefly(await inspector.history(life.name))).toEqual(life.told);
    }
  });
});

describe("what is written", () => {
  const WAY: Verb[] = [
    "claim",
    "retry",
    "claim",
    "snooze",
    "claim",
    "hand back",
    "claim",
    "crash",
    "bury",
    "requeue",
    "cancel",
    "requeue",
    "claim",
    "succeed",
  ];
  it.each<[Mode, string[]]>([
    ["none", []],
    ["exceptions", ["snoozed", "handed-back", "rescued", "requeued", "requeued"]],
  ])("in mode %s is what is rare", async (mode, events) => {
    const life = await Life.begin(`rare-${mode}`, mode);
    for (const verb of WAY) await life.do(verb);
    expect(await written(life.id)).toEqual(events);
  });

  it("in mode full is everything", async () => {
    const life = await Life.begin("everything", "full");
    for (const verb of WAY) await life.do(verb);
    const events = await written(life.id);
    // A cancel stays in `done`, and goes with the requeue: its event always follows from them.
    const told = life.told.map((one) => one.split(" ")[1]!).filter((one) => one !== "cancelled");
    expect([...events].sort()).toEqual(told.sort());
  });

  it("changes with the queue's mode at once, and the story goes on", async () => {
    const life = await Life.begin("changing", "full");
    const modes: Mode[] = ["exceptions", "full", "exceptions", "full"];
    for (const [step, verb] of WAY.entries()) {
      await bench.sql("update jobs.queue set history = $2 where id = $1", [
        life.hands.queueId,
        modes[step % 4],
      ]);
      await life.do(verb);
    }
    expect(briefly(await inspector.history(life.name))).toEqual(life.told);
  });
});

describe("an event", () => {
  it("says when, by whom, why and for how long", async () => {
    for (const mode of ["full", "exceptions"] as const) {
      const life = await Life.begin(`details-${mode}`, mode);
      for (const verb of ["claim", "snooze", "claim", "retry", "claim", "bury"] as const)
        await life.do(verb);
      const events = await inspector.history(life.name);
      expect(events).toMatchObject([
        { event: "enqueued", attempt: 0, generation: 1, worker: null },
        { event: "started", attempt: 1, worker: "hands:1" },
        { event: "snoozed", attempt: 1, worker: "hands:1", delayMs: 5_000 },
        { event: "started", attempt: 2 },
        { event: "retried", attempt: 2, error: { name: "Error", message: "attempt 2" } },
        { event: "started", attempt: 3 },
        { event: "died", attempt: 3, reason: "exhausted", error: { message: "attempt 3" } },
      ]);
      const times = events.map(({ at }) => at);
      expect(times).toEqual([...times].sort());
      expect(times[0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    }
  });

  it("of a failure after a requested cancel says what was thrown, also once it is requeued", async () => {
    for (const mode of ["full", "exceptions"] as const) {
      const life = await Life.begin(`asked-${mode}`, mode);
      for (const verb of ["claim", "cancel and fail"] as const) await life.do(verb);
      for (let look = 0; look < 2; look++) {
        expect((await inspector.history(life.name)).slice(0, 4)).toMatchObject([
          { event: "enqueued" },
          { event: "started", attempt: 1, worker: "hands:1" },
          { event: "cancel-requested", attempt: 1, worker: null, error: null },
          { event: "cancelled", attempt: 1, worker: "hands:1", error: { message: "attempt 1" } },
        ]);
        if (look === 0) await life.do("requeue");
      }
      expect(briefly(await inspector.history(life.name))).toEqual(life.told);
    }
  });

  it("of a rescue leaves the start of the run that went silent", async () => {
    const life = await Life.begin("silent", "exceptions");
    await life.do("claim");
    const [, start] = await inspector.history(life.name);
    await life.do("crash");
    await life.do("crash");
    const story = await inspector.history(life.name);
    expect(briefly(story)).toEqual(life.told);
    expect(story[1]).toEqual(start);
    expect(story[2]).toMatchObject({ event: "rescued", attempt: 2, worker: "hands:1" });
  });

  it("of a letter whose errors and events have gone with their day is still known from the letter", async () => {
    const life = await Life.begin("old", "exceptions");
    for (const verb of [
      "claim",
      "retry",
      "claim",
      "bury",
      "requeue",
      "claim",
      "retry",
      "claim",
      "cancel and fail",
      "requeue",
      "claim",
      "bury",
    ] as const)
      await life.do(verb);
    await bench.sql("delete from jobs.attempt_error where job_id = $1", [life.id]);
    await bench.sql("delete from jobs.event where job_id = $1", [life.id]);
    expect(briefly(await inspector.history(life.name))).toEqual(
      life.told.filter((one) => !/requeued|requested/.test(one)),
    );
    expect(await inspector.attempts(life.name)).toEqual(
      [1, 2, 3, 4, 5].map((attempt) => ({
        attempt,
        startedAt: expect.any(String),
        failedAt: expect.any(String),
        error: { name: "Error", message: `attempt ${attempt}` },
      })),
    );
  });

  it("is read by SQL too, with the same words", async () => {
    const life = await Life.begin("by-sql", "exceptions");
    for (const verb of ["claim", "snooze", "claim", "succeed"] as const) await life.do(verb);
    const rows = await bench.sql<{ event: string }>(
      "select event from jobs.job_event where id = $1 order by generation, attempt, at",
      [life.name],
    );
    expect(rows.map(({ event }) => event)).toEqual(life.told.map((one) => one.split(" ")[1]!));
  });
});

describe("when no worker has made days for a week", () => {
  let own: Bench;
  let looking: JobInspector;
  beforeEach(async () => {
    own = await Bench.open();
    looking = (await own.app([own.root()])).get(JobInspector);
  });
  afterEach(async () => await own.close());

  const noDays = async () => {
    const days = await own.sql<{ name: string }>(
      `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = '${own.schema}.event'::regclass`,
    );
    for (const { name } of days) await own.sql(`drop table jobs.${name}`);
  };

  it("jobs are enqueued all the same, also by SQL, and their history says so", async () => {
    const producer = await own.producer();
    await producer.enqueue("work", {});
    await own.sql("update jobs.queue set history = 'full'");
    await noDays();
    const { id } = await producer.enqueue("work", {});
    const [sent] = await own.sql<{ id: string }>("select id from jobs.enqueue('work')");
    for (const one of [id, sent!.id])
      expect((await looking.history(one)).map(({ event }) => event)).toEqual(["enqueued"]);
  });

  it("a dead letter is requeued all the same", async () => {
    const producer = await own.producer();
    const { id } = await producer.enqueue("work", {});
    await own.sql(
      `with gone as (delete from jobs.job returning *)
       insert into jobs.dead (id, created_at, run_at, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
       select id, created_at, run_at, 1, queue_id, 1, 0, lane, 1, kind, payload, 'exhausted' from gone`,
    );
    await noDays();
    expect(await producer.requeue(id)).toBe("queued");
    expect((await looking.history(id)).map(({ event }) => event)).toContain("requeued");
  });
});

it("nobody's job has no history; what is no id is refused", async () => {
  expect(await inspector.history("1-999999999")).toEqual([]);
  await expect(inspector.history("nonsense")).rejects.toMatchObject({ code: "JOB_ID_INVALID" });
});
