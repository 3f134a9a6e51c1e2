import { defineJob } from "../job/definition.js";
import { resolvePolicy } from "../job/defaults.js";
import type { Handler } from "../handler/handler.js";
import type { JobContext } from "../handler/job-context.js";
import type { JobEvent } from "../job/event.js";
import { JOB_EVENTS } from "../job/event.js";
import { Events } from "../observe/events.js";
import type { Claim } from "../store/transitions/claim.js";
import { claimOf } from "../../../../test/support/claims.js";
import { until } from "../../../../test/support/until.js";
import type { Attempt } from "./attempt.js";
import { Held, monotonic } from "./held.js";
import type { Lease } from "./lease.js";
import { QueueWorker } from "./queue-worker.js";
import { HandlerSlots } from "./served-lane.js";
import type { Settlement } from "./settlement.js";
import type { Settler } from "./settler.js";
import { Slots } from "./slots.js";

const definition = defineJob("work");

/** Slots without a database: the spec is the claimer and the settler. */
function open({ serverNow }: { serverNow?: string } = {}) {
  const bodies: { job: JobContext; attempt: number; end: (value?: unknown) => void }[] = [];
  const handler: Handler = {
    definition,
    concurrency: null,
    schedule: null,
    limits: null,
    batch: null,
    subscription: null,
    policy: resolvePolicy(),
    name: "Spec.work",
    run: (_, job) =>
      new Promise(
        (end) =>
          void bodies.push({ job: job as JobContext, attempt: (job as Attempt).attempt, end }),
      ),
  };
  const events: JobEvent[] = [];
  const heard = new Events();
  heard.on(JOB_EVENTS, (event) => events.push(event));
  const slots = new Slots(heard, {
    logger: () => ({ log() {}, warn() {}, error() {}, debug() {} }),
    enqueue: () => Promise.reject(new Error("not here")),
    transaction: () => Promise.reject(new Error("not here")),
    reported: () => {},
    moved: () => {},
    dueAgain: () => {},
    handedBack: () => {},
    lost: () => {},
    warn: () => {},
    failing: () => {},
    serverNow: () => (serverNow === undefined ? undefined : Date.parse(serverNow)),
  });
  const settles: { attempt: Attempt; settlement: Settlement }[] = [];
  const settler = {
    add: (attempt: Attempt, settlement: Settlement) => settles.push({ attempt, settlement }),
  };
  const held = new Held(20);
  slots.begin(settler as unknown as Settler, { held, ms: 30_000 } as Lease);
  const queue = new QueueWorker(
    { name: "default", id: 1, concurrency: 10, prefetch: 10 },
    new Map([["work", new HandlerSlots(handler)]]),
  );
  queue.serve([{ queueId: 1, lane: 0, kind: "work", priority: 0 }], 1);
  const take = (claim: Partial<Claim>, since = monotonic()) => {
    slots.take(queue, claimOf({ id: "7", kind: "work", ...claim }), since);
    slots.fill(queue);
  };
  return { slots, take, bodies, settles, events, queue };
}

const ran = (bodies: { attempt: number }[]) => bodies.map(({ attempt }) => attempt);

describe("what runs", () => {
  it("is told of, the one that began first in front, and nothing that waits or is over", async () => {
    const { slots, take, bodies } = open();
    expect(slots.longest(5)).toEqual([]);
    for (const id of ["1", "2", "3"]) {
      take({ id });
      await until(() => bodies.length === Number(id));
    }
    bodies[1]!.end();
    await until(() => slots.running === 2);
    const job = (id: string) => ({ id: `1-${id}`, kind: "work", ranMs: expect.any(Number) });
    expect(slots.longest(5)).toEqual([job("1"), job("3")]);
    expect(slots.longest(1)).toEqual([job("1")]);
  });
});

describe("Slots, given a job that it holds already", () => {
  it("goes on under the new fence when the database has forgotten its claim", async () => {
    const { slots, take, bodies, settles } = open();
    take({ attempt: 3, worker: 1 });
    await until(() => bodies.length === 1);
    take({ attempt: 3, worker: 2 });
    expect(slots.held).toBe(1);
    bodies[0]!.end("done");
    await until(() => settles.length === 1);
    expect(settles[0]!.attempt.claim).toMatchObject({ attempt: 3, worker: 2 });
    expect(ran(bodies)).toEqual([3]);
    expect(slots.lostCount).toBe(0);
  });

  it("goes on when it has taken over its own expired lease", async () => {
    const { slots, take, bodies } = open();
    take({ attempt: 1 });
    await until(() => bodies.length === 1);
    take({ attempt: 2, rescued: true, crashes: 1 });
    expect(slots.held).toBe(1);
    expect(bodies[0]!.job.signal.aborted).toBe(false);
    expect(slots.lostCount).toBe(0);
  });

  it.each([
    { attempt: 2, rescued: false, what: "somebody had it in between and put it back" },
    { attempt: 3, rescued: true, what: "somebody had it in between and died" },
  ])("runs it anew, and tells the old body, when $what", async ({ attempt, rescued }) => {
    const { slots, take, bodies, settles } = open();
    take({ attempt: 1 });
    await until(() => bodies.length === 1);
    take({ attempt, rescued, worker: 2 });
    await until(() => bodies.length === 2);
    expect(bodies[0]!.job.signal.reason).toMatchObject({ name: "LeaseLostError" });
    expect(bodies[1]!.job.signal.aborted).toBe(false);
    expect(slots.lostCount).toBe(1);
    bodies[0]!.end("old");
    bodies[1]!.end("new");
    await until(() => settles.length > 0);
    expect(settles.map((one) => one.settlement)).toEqual([{ verb: "succeed", result: "new" }]);
  });

  it("runs it anew when only its id is the same: the tables were made anew under it", async () => {
    const { slots, take, bodies } = open();
    take({ attempt: 1 });
    await until(() => bodies.length === 1);
    take({ attempt: 1, runAt: "2026-01-01 00:00:00.000001+00" });
    await until(() => bodies.length === 2);
    expect(bodies[0]!.job.signal.reason).toMatchObject({ name: "LeaseLostError" });
    expect(slots.lostCount).toBe(1);
  });

  it("runs it anew when the answer to its own settle comes after the next claim", async () => {
    const { slots, take, bodies, settles, events, queue } = open();
    take({ attempt: 1 });
    await until(() => bodies.length === 1);
    bodies[0]!.end(Promise.reject(new Error("once")));
    await until(() => settles.length === 1);
    // Put back, committed, claimed again; only then is the first answer read.
    take({ attempt: 2, failures: 1 });
    await until(() => bodies.length === 2);
    slots.settled(settles[0]!.attempt, settles[0]!.settlement);
    expect(slots.held).toBe(1);
    bodies[1]!.end("done");
    await until(() => settles.length === 2);
    expect(settles[1]).toMatchObject({ attempt: { attempt: 2 }, settlement: { verb: "succeed" } });
    slots.settled(settles[1]!.attempt, settles[1]!.settlement);
    expect(slots.held).toBe(0);
    expect([queue.held, queue.running, queue.waiting]).toEqual([0, 0, 0]);
    expect(events.map(({ event }) => event)).toEqual([
      "started",
      "started",
      "retried",
      "succeeded",
    ]);
    expect(slots.lostCount).toBe(0);
  });
});

it("Slots hand back what is of another kind than its lane is known for, and never start it", async () => {
  const { slots, take, bodies, settles, queue } = open();
  take({ id: "8", kind: "other" });
  take({ id: "9" });
  await until(() => bodies.length === 1);
  expect(bodies[0]!.job.id).toBe("1-9");
  expect(settles.map(({ settlement }) => settlement)).toEqual([
    { verb: "hand-back", started: false, quarantine: false, misplaced: true },
  ]);
  expect([queue.waiting, slots.held]).toEqual([0, 2]);
});

describe("Slots, cut off for longer than the lease", () => {
  it("gives back what has not started: it may still be ours", async () => {
    const { slots, take, bodies, settles, queue } = open();
    take({}, monotonic() - 30_001);
    await until(() => settles.length === 1);
    expect(bodies).toEqual([]);
    expect(settles.map((one) => one.settlement)).toEqual([
      { verb: "hand-back", started: false, quarantine: false },
    ]);
    expect(slots.lostCount).toBe(0);
    slots.settled(settles[0]!.attempt, settles[0]!.settlement);
    expect([slots.held, queue.held, queue.running, queue.waiting]).toEqual([0, 0, 0, 0]);
  });

  it("and is told when it is not", async () => {
    const { slots, take, settles, queue } = open();
    take({}, monotonic() - 30_001);
    await until(() => settles.length === 1);
    slots.lost(settles[0]!.attempt);
    expect(slots.lostCount).toBe(1);
    expect([slots.held, queue.held, queue.running, queue.waiting]).toEqual([0, 0, 0, 0]);
  });
});

describe("Slots, telling of a start", () => {
  const RUN_AT = "2026-01-01 00:00:00.5+00";
  const told = async (serverNow: string | undefined, runAt = RUN_AT) => {
    const { take, bodies, events } = open({ serverNow });
    take({ runAt });
    await until(() => bodies.length === 1);
    const [started] = events;
    expect(started).toMatchObject({ event: "started", id: "1-7", attempt: 1 });
    return started!.waitMs;
  };

  it("says how long it was due, by the server's clock, as long as that is known", async () => {
    expect(await told("2026-01-01T00:00:07.750Z")).toBe(7_250);
    expect(await told("2026-01-01T00:00:00.500Z", "2026-01-01 00:00:00.498766+00")).toBe(2);
    expect(await told(undefined)).toBeUndefined();
    expect(await told("2026-01-01T00:00:07.750Z", "-infinity")).toBeUndefined();
  });

  it("says nothing less than nothing: the clock is known a little late", async () => {
    expect(await told("2026-01-01T00:00:00.499Z")).toBe(0);
  });
});
