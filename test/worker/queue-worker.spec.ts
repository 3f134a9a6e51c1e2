import { jest } from "@jest/globals";
import type { Lane } from "../../libs/jobs/src/store/queues/lanes.js";
import type { Claim } from "../../libs/jobs/src/store/transitions/claim.js";
import type { Attempt } from "../../libs/jobs/src/worker/attempt.js";
import { QueueWorker } from "../../libs/jobs/src/worker/queue-worker.js";
import { HandlerSlots } from "../../libs/jobs/src/worker/served-lane.js";
import { attemptOf, claimOf, idleHandler } from "../support/claims.js";

const lane = (number: number, kind: string, priority = 0): Lane => ({
  queueId: 1,
  lane: number,
  kind,
  priority,
});

let ids = 0;
const claim = (laneNumber: number): Claim =>
  claimOf({ id: String(++ids), lane: laneNumber, kind: "any" });

/** A queue with handlers by kind; null is no limit of their own. */
function queueOf(
  { concurrency = 4, prefetch = 4 },
  limits: Record<string, number | null>,
  lanes: Lane[],
): QueueWorker {
  const handlers = new Map(
    Object.entries(limits).map(([kind, limit]) => [
      kind,
      new HandlerSlots(idleHandler(kind, limit)),
    ]),
  );
  const queue = new QueueWorker({ name: "q", id: 1, concurrency, prefetch }, handlers);
  queue.serve(lanes, 1);
  return queue;
}

/** What it asks when anything may have come. */
const asked = (queue: QueueWorker): [number, number][] => {
  queue.want();
  return queue.ask(0)?.lanes.map((one): [number, number] => [one.lane, one.room]) ?? [];
};

/** Takes so many of a lane, starts what can start; answers what runs. */
function take(queue: QueueWorker, laneNumber: number, count: number): Attempt[] {
  const handler = idleHandler("any");
  for (let i = 0; i < count; i++) queue.take(attemptOf(claim(laneNumber), handler));
  return start(queue);
}

function start(queue: QueueWorker): Attempt[] {
  const started: Attempt[] = [];
  for (let one = queue.next(); one; one = queue.next()) started.push(one);
  return started;
}

function finish(queue: QueueWorker, attempt: Attempt): void {
  queue.ended(attempt);
  queue.over(attempt);
}

describe("QueueWorker", () => {
  it("asks for lanes of its kinds only, of higher priority first", () => {
    const lanes = [lane(0, "a"), lane(1, "stranger", 100), lane(2, "a", 5), lane(3, "b", -5)];
    const queue = queueOf({}, { a: null, b: null }, lanes);
    expect(asked(queue).map(([number]) => number)).toEqual([2, 0, 3]);
  });

  it("asks for nothing before it knows a lane", () => {
    expect(queueOf({}, { a: null }, []).ask(0)).toBeUndefined();
  });

  it("equal priorities take turns in being first", () => {
    const lanes = [lane(0, "a"), lane(1, "b"), lane(2, "c"), lane(3, "top", 1)];
    const queue = queueOf({}, { a: null, b: null, c: null, top: null }, lanes);
    const firsts = [1, 2, 3].map(() => asked(queue).map(([number]) => number));
    for (const order of firsts) expect(order[0]).toBe(3);
    expect(new Set(firsts.map(([, first]) => first))).toEqual(new Set([0, 1, 2]));
  });

  it("a lane that is learned of later keeps what waits in the others", () => {
    const queue = queueOf({ concurrency: 1 }, { a: null, b: null }, [lane(0, "a")]);
    take(queue, 0, 2);
    queue.serve([lane(0, "a"), lane(1, "b", 9)], 2);
    expect(queue.waiting).toBe(1);
    expect(queue.version).toBe(2);
    expect(asked(queue).map(([number]) => number)).toEqual([1, 0]);
  });

  it.each([
    ["is of another kind", [lane(0, "b"), lane(1, "b", 9)]],
    ["has another priority", [lane(0, "a", 1)]],
    ["is gone", []],
  ])("a list in which a lane that it serves %s is not taken over", (_, lanes) => {
    const queue = queueOf({}, { a: null, b: null }, [lane(0, "a")]);
    expect(queue.serve(lanes, 2)).toBe(false);
    expect(queue.version).toBe(1);
    expect(asked(queue)).toEqual([[0, 8]]);
  });

  it("has room for concurrency and prefetch, counts what is being settled, and waits for a worthwhile claim", () => {
    const queue = queueOf({ concurrency: 4, prefetch: 4 }, { a: null }, [lane(0, "a")]);
    expect(queue.room).toBe(8);
    const running = take(queue, 0, 8);
    expect(running).toHaveLength(4);
    expect([queue.room, queue.held, queue.waiting]).toEqual([0, 8, 4]);
    queue.ended(running[0]!);
    expect(queue.room).toBe(0);
    queue.over(running[0]!);
    // One of eight is not worth a statement; a quarter is.
    expect(queue.room).toBe(0);
    finish(queue, running[1]!);
    expect(queue.room).toBe(2);
  });

  it("starts no more than the queue lets, in the order of the claims of a lane", () => {
    const queue = queueOf({ concurrency: 2, prefetch: 2 }, { a: null }, [lane(0, "a")]);
    const running = take(queue, 0, 4);
    expect(running).toHaveLength(2);
    finish(queue, running[0]!);
    const [next] = start(queue);
    expect(Number(next!.claim.id)).toBe(Number(running[1]!.claim.id) + 1);
  });

  it("starts no more than the handler lets, in whatever lane, and others instead", () => {
    const lanes = [lane(0, "a"), lane(1, "a", 1), lane(2, "b", -1)];
    const queue = queueOf({ concurrency: 4, prefetch: 4 }, { a: 1, b: null }, lanes);
    expect(take(queue, 0, 1)).toHaveLength(1);
    expect(take(queue, 1, 1)).toHaveLength(0);
    expect(take(queue, 2, 2)).toHaveLength(2);
  });

  it("asks a handler that is full for no more than a prefetch, and then not at all", () => {
    const lanes = [lane(0, "a"), lane(1, "b")];
    const queue = queueOf({ concurrency: 10, prefetch: 10 }, { a: 2, b: null }, lanes);
    expect(Object.fromEntries(asked(queue))).toEqual({ 0: 4, 1: 20 });
    take(queue, 0, 2);
    expect(Object.fromEntries(asked(queue))).toEqual({ 0: 2, 1: 18 });
    take(queue, 0, 2);
    expect(Object.fromEntries(asked(queue))).toEqual({ 1: 16 });
  });

  it("asks again only where a claim was full, or a job was announced", () => {
    const lanes = [lane(0, "a"), lane(1, "b")];
    const queue = queueOf({ concurrency: 10, prefetch: 10 }, { a: 2, b: null }, lanes);
    const first = queue.ask(0)!;
    expect(queue.hungry).toBe(false);
    const claims = [0, 0, 0, 0].map(() => claim(0));
    queue.learn(first, claims, 1, 1);
    take(queue, 0, 4);
    // The full handler's lane has more, but no slot: it is neither claimed from nor looked at, and not forgotten.
    expect(queue.hungry).toBe(false);
    expect(queue.ask(2)).toBeUndefined();
    expect(queue.toLookAt().map((one) => one.lane.lane)).toEqual([1]);
    queue.over(attemptOf(claim(0)));
    expect(queue.hungry).toBe(true);
    expect(queue.ask(3)!.lanes.map((one) => one.lane)).toEqual([0]);
    expect(queue.hungry).toBe(false);
    queue.want();
    expect(queue.hungry).toBe(true);
  });

  it("lanes of one handler share its slots: the highest first, the others when it is empty", () => {
    const lanes = [lane(0, "a"), lane(1, "a", 1), lane(2, "a", 2)];
    const queue = queueOf({ concurrency: 10, prefetch: 10 }, { a: 1 }, lanes);
    const seen = [0, 1, 2].map(() => {
      const ask = queue.ask(0)!;
      queue.learn(ask, [], 1, 1);
      return ask.lanes.map((one) => [one.lane, one.room]);
    });
    expect(seen).toEqual([[[2, 2]], [[1, 2]], [[0, 2]]]);
    expect(queue.ask(0)).toBeUndefined();
  });

  it("full handlers together never take the room of one that could start", () => {
    const lanes = [lane(0, "a"), lane(1, "b"), lane(2, "c")];
    const queue = queueOf({ concurrency: 3, prefetch: 1 }, { a: 1, b: 1, c: 1 }, lanes);
    for (let ask = queue.ask(0); ask; queue.want(), ask = queue.ask(0)) {
      const backlog = ask.lanes.filter((one) => one.lane !== 2);
      if (backlog.length === 0) break;
      let { room } = ask;
      for (const one of backlog) {
        const got = Math.min(one.room, room);
        room -= got;
        take(queue, one.lane, got);
      }
    }
    expect(queue.running).toBe(2);
    expect(asked(queue)).toEqual([[2, 1]]);
  });

  it("claims nothing for slots that bodies without end have, and lets go of what waits for them", () => {
    const lanes = [lane(0, "a"), lane(1, "b")];
    const queue = queueOf({ concurrency: 3, prefetch: 3 }, { a: 1, b: null }, lanes);
    const [a] = take(queue, 0, 2);
    const stick = (one: Attempt) => {
      one.phase = "over";
      queue.over(one, true);
    };
    stick(a!);
    expect(asked(queue)).toEqual([[1, 4]]);
    expect(queue.takeStranded()).toHaveLength(1);
    queue.over(attemptOf(claim(0)));
    const [b, c] = take(queue, 1, 4);
    stick(b!);
    expect(queue.takeStranded()).toEqual([]);
    stick(c!);
    expect([queue.room, queue.ask(0)]).toEqual([0, undefined]);
    expect(queue.takeStranded()).toHaveLength(2);
    queue.ended(a!);
    expect([queue.stuck, queue.waiting]).toEqual([2, 0]);
    expect(Object.fromEntries(asked(queue))).toHaveProperty("0");
  });

  it("forgets what waits when it is lost, and hands it all out for the drain", () => {
    const queue = queueOf({ concurrency: 1, prefetch: 3 }, { a: null }, [lane(0, "a")]);
    const all = [0, 1, 2, 3].map(() => attemptOf(claim(0)));
    for (const one of all) queue.take(one);
    expect(start(queue)).toEqual([all[0]]);
    queue.forgetWaiting(all[2]!);
    queue.forgetWaiting(all[2]!);
    queue.forgetWaiting(all[0]!);
    expect(queue.waiting).toBe(2);
    expect(queue.takeWaiting()).toEqual([all[1], all[3]]);
    expect(queue.waiting).toBe(0);
    expect(start(queue)).toEqual([]);
  });

  it("asks for one suspect, in the lanes that are set aside", () => {
    const queue = queueOf({}, { a: null }, [lane(0, "a"), lane(3, "a", 1)]);
    const { lanes, room } = queue.askSuspect()!;
    expect(room).toBe(1);
    expect(lanes.map((one) => one.lane)).toEqual([20_003, 20_000]);
    // A claim from there belongs to the lane it came from.
    queue.take(attemptOf(claim(20_003)));
    expect(start(queue)).toHaveLength(1);
  });

  it("with limits, what runs for long does not count for whether most of it is free", () => {
    const clock = jest.spyOn(performance, "now");
    const from = performance.now();
    const queue = queueOf({ concurrency: 8, prefetch: 0 }, { a: null }, [lane(0, "a")]);
    queue.serve([lane(0, "a")], 2, { limited: true });
    take(queue, 0, 4);
    expect(queue.mostlyFree).toBe(false);
    clock.mockReturnValue(from + 2_000);
    expect(queue.mostlyFree).toBe(true);
    const more = take(queue, 0, 2);
    expect(queue.mostlyFree).toBe(false);
    finish(queue, more[0]!);
    expect(queue.mostlyFree).toBe(true);
    clock.mockRestore();
  });
});
