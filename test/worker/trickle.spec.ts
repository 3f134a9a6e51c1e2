import { jest } from "@jest/globals";
import type { QueueWorker } from "../../libs/jobs/src/worker/queue-worker.js";
import { Trickle, Trickles } from "../../libs/jobs/src/worker/trickle.js";

/** A trickle that has learnt from claims: what each brought, and when. */
function after(...claims: [jobs: number, at: number, costMs?: number][]): Trickle {
  const trickle = new Trickle();
  for (const [jobs, at, costMs = 0] of claims) trickle.learn(jobs, costMs, at);
  return trickle;
}

describe("jobs trickle in", () => {
  it("when two claims bring something within a moment, and as long as that goes on", () => {
    expect(after([3, 0]).pauseMs).toBeUndefined();
    expect(after([3, 0], [1, 5]).pauseMs).toBe(1);
    expect(after([3, 0], [1, 500]).pauseMs).toBeUndefined();
    expect(after([3, 0], [1, 5], [1, 10], [2, 15]).pauseMs).toBe(1);
  });

  it("and claims that bring nothing are made ever farther apart, until none is made", () => {
    expect(after([3, 0], [1, 5], [0, 6]).pauseMs).toBe(2);
    expect(after([3, 0], [1, 5], [0, 6], [0, 8]).pauseMs).toBe(4);
    expect(after([3, 0], [1, 5], [0, 6], [0, 30]).pauseMs).toBeUndefined();
    expect(after([3, 0], [0, 1], [0, 2]).pauseMs).toBeUndefined();
  });

  it("and a claim that is dear, or brings much, is made the more seldom", () => {
    expect(after([3, 0], [1, 5, 8]).pauseMs).toBe(8);
    expect(after([3, 0], [50, 5]).pauseMs).toBe(5);
    expect(after([3, 0], [1_000, 5]).pauseMs).toBe(10);
  });
});

describe("the next claim", () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  const queueOf = (trickle: Trickle) => ({ trickle }) as unknown as QueueWorker;

  it("is made once after the pause, of a queue into which jobs trickle", () => {
    const found = jest.fn();
    const trickles = new Trickles(found);
    const queue = queueOf(after([1, 0], [1, 5, 3]));
    trickles.emptied(queue);
    trickles.emptied(queue);
    trickles.emptied(queueOf(after([1, 0])));
    jest.advanceTimersByTime(2);
    expect(found).not.toHaveBeenCalled();
    jest.advanceTimersByTime(100);
    expect(found.mock.calls).toEqual([[queue]]);
    trickles.emptied(queue);
    jest.advanceTimersByTime(3);
    expect(found).toHaveBeenCalledTimes(2);
  });

  it("is not made when the worker drains", () => {
    const found = jest.fn();
    const trickles = new Trickles(found);
    trickles.emptied(queueOf(after([1, 0], [1, 5])));
    trickles.stop();
    jest.advanceTimersByTime(100);
    expect(found).not.toHaveBeenCalled();
  });
});
