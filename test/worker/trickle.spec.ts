import { jest } from "@jest/globals";
import { JobQueue, defineJob } from "nestjs-pg-jobs";
import type { QueueWorker } from "../../libs/jobs/src/worker/queue-worker.js";
import { Revisits } from "../../libs/jobs/src/worker/revisits.js";
import { Trickle } from "../../libs/jobs/src/worker/trickle.js";
import { Bench } from "../support/harness.js";
import { handler } from "../support/handlers.js";
import { until } from "../support/until.js";

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
    expect(after([3, 0], [1, 5], [0, 6]).pauseMs).toBe(1);
    expect(after([3, 0], [1, 5], [0, 6], [0, 7]).pauseMs).toBe(1);
    expect(after([3, 0], [1, 5], [0, 6], [0, 7], [0, 8]).pauseMs).toBe(2);
    expect(after([3, 0], [1, 5], [0, 6], [0, 7], [0, 8], [0, 11]).pauseMs).toBe(4);
    expect(after([3, 0], [1, 5], [0, 6], [0, 7], [1, 8], [0, 11]).pauseMs).toBe(1);
    expect(after([3, 0], [1, 5], [0, 6], [0, 30]).pauseMs).toBeUndefined();
    expect(after([3, 0], [0, 1], [0, 2]).pauseMs).toBeUndefined();
  });

  it("and a claim that is dear, or brings much, is made the more seldom", () => {
    expect(after([3, 0], [1, 5, 8]).pauseMs).toBe(8);
    expect(after([3, 0], [50, 5]).pauseMs).toBe(5);
    expect(after([3, 0], [1_000, 5]).pauseMs).toBe(10);
  });
});

describe("claims in vain, of which many have been made of late", () => {
  /** Of claims 5 ms apart, the first two of which have brought something. */
  const vain = (count: number) =>
    after(
      [1, 0],
      [1, 5],
      ...Array.from({ length: count }, (_, n) => [0, 10 + n] as [number, number]),
    );

  it("keep a process from following hints at once: the more of them, the longer, and by chance", () => {
    const wait = (count: number, random: number) => vain(count).waitMs(30, () => random);
    expect([0, 1, 2].map((count) => wait(count, 0.99))).toEqual([0, 0, 0]);
    expect([3, 4, 5, 6, 9].map((count) => wait(count, 0.5))).toEqual([4, 8, 16, 32, 32]);
    expect(wait(9, 0)).toBe(0);
  });

  it("are forgotten after a while, and made up for by claims that bring something", () => {
    const trickle = vain(5);
    expect(trickle.waitMs(114, () => 0.5)).toBe(16);
    expect(trickle.waitMs(115, () => 0.5)).toBe(0);
    trickle.learn(1, 0.1, 20);
    expect(trickle.waitMs(21, () => 0.5)).toBe(4);
    trickle.learn(1, 0.1, 25);
    expect(trickle.waitMs(26, () => 0.5)).toBe(0);
  });

  it("make the next ones of a trickle the more seldom", () => {
    const trickle = vain(6);
    trickle.learn(1, 0.1, 20);
    expect(trickle.pauseMs).toBe(4);
    trickle.learn(0, 0.1, 24);
    expect(trickle.pauseMs).toBe(8);
  });
});

describe("the claims of a queue", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  it("are what a trickle learns from, and where they end one is looked for", async () => {
    const learn = jest.spyOn(Trickle.prototype, "learn");
    const emptied = jest.spyOn(Revisits.prototype, "emptied");
    const app = await bench.worker([handler(defineJob("work"), () => "done")]);
    await app.get(JobQueue).enqueue("work");
    await until(() => learn.mock.calls.some(([jobs]) => jobs === 1), { what: "a claim" });
    await until(() => emptied.mock.calls.length, { what: "the end of claiming" });
    jest.restoreAllMocks();
  });
});

describe("the next claim", () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  const queueOf = ({ pauseMs }: Trickle) => ({ againIn: () => pauseMs }) as unknown as QueueWorker;

  it("is made once after the pause, of a queue into which jobs trickle", () => {
    const found = jest.fn();
    const revisits = new Revisits(found);
    const queue = queueOf(after([1, 0], [1, 5, 3]));
    revisits.emptied(queue);
    revisits.emptied(queue);
    revisits.emptied(queueOf(after([1, 0])));
    jest.advanceTimersByTime(2);
    expect(found).not.toHaveBeenCalled();
    jest.advanceTimersByTime(100);
    expect(found.mock.calls).toEqual([[queue]]);
    revisits.emptied(queue);
    jest.advanceTimersByTime(3);
    expect(found).toHaveBeenCalledTimes(2);
  });

  it("is made earlier when there is a reason for it meanwhile", () => {
    const found = jest.fn();
    const revisits = new Revisits(found);
    const waits = [500, 2, 300];
    const queue = { againIn: () => waits.shift() } as unknown as QueueWorker;
    for (let n = 0; n < 3; n++) revisits.emptied(queue);
    jest.advanceTimersByTime(3);
    expect(found).toHaveBeenCalledTimes(1);
    jest.advanceTimersByTime(1_000);
    expect(found).toHaveBeenCalledTimes(1);
  });

  it("is not made when the worker drains", () => {
    const found = jest.fn();
    const revisits = new Revisits(found);
    revisits.emptied(queueOf(after([1, 0], [1, 5])));
    revisits.stop();
    jest.advanceTimersByTime(100);
    expect(found).not.toHaveBeenCalled();
  });
});
