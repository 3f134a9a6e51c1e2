import { jest } from "@jest/globals";
import type { LimitedClaims } from "../store/transitions/claim-limited.js";
import { QueueLimits } from "./limits.js";

const answer = (refused?: "busy"): LimitedClaims => ({
  claims: [],
  picked: new Set(),
  since: "0",
  parked: 0,
  strays: 0,
  blocked: false,
  waitMs: undefined,
  ...(refused ? { refused } : {}),
});

function learnt(...answers: ("busy" | undefined)[]): QueueLimits {
  const limits = new QueueLimits();
  for (const one of answers) limits.learn(answer(one), 1);
  return limits;
}
const times = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one);

describe("between claims of a queue with limits", () => {
  it("there is no rest where nobody else claims", () => {
    expect(learnt().restMs).toBe(0);
    expect(learnt(undefined, undefined).restMs).toBe(0);
  });

  it("who is refused comes again in a moment, later when it is refused again", () => {
    const most = (count: number) =>
      Math.max(...times(200, 0).map(() => learnt(...times(count, "busy" as const)).restMs));
    expect(most(1)).toBeGreaterThan(1);
    expect(most(1)).toBeLessThan(1.6);
    expect(most(9)).toBeGreaterThan(8);
    expect(most(9)).toBeLessThanOrEqual(12);
  });

  it("the more often one is refused, the longer the next ones gather room; at most 10 ms", () => {
    const rest = (count: number) => learnt(...times(count, "busy" as const), undefined).restMs;
    expect(rest(2)).toBeCloseTo(1.96);
    expect(rest(4)).toBeGreaterThan(rest(2));
    expect(rest(50)).toBeCloseTo(9.8);
  });

  it("the rest is forgotten when nobody is in the way any more", () => {
    const limits = learnt(...times(50, "busy" as const));
    const rests = times(120, 0).map(() => {
      limits.learn(answer(), 1);
      return limits.restMs;
    });
    expect(rests).toEqual([...rests].sort((a, b) => b - a));
    expect(rests.at(-1)).toBe(0);
  });

  it("ends with what is over, once there is room enough; not for who was refused", async () => {
    const limits = learnt(...times(50, "busy" as const), undefined);
    let room = 0;
    let over = false;
    const rested = limits.rest(() => room >= 2).then(() => (over = true));
    room = 1;
    limits.ended("1");
    await Promise.resolve();
    expect(over).toBe(false);
    room = 2;
    limits.ended("2");
    await rested;
    expect(limits.restMs).toBeGreaterThan(9);
    const refused = learnt(...times(5, "busy" as const));
    const from = performance.now();
    const again = refused.rest(() => true);
    refused.ended("3");
    await again;
    expect(performance.now() - from).toBeGreaterThan(3);
  });

  it("what has gone on for a second is not waited for", () => {
    const clock = jest.spyOn(performance, "now");
    const from = performance.now();
    const limits = new QueueLimits();
    limits.began("1");
    limits.began("2");
    expect(limits.long).toBe(0);
    clock.mockReturnValue(from + 1_100);
    limits.began("3");
    expect(limits.long).toBe(2);
    limits.ended("1");
    expect(limits.long).toBe(1);
    clock.mockRestore();
  });

  it("the wait for a rate is counted from its answer, however long the rest was", () => {
    const clock = jest.spyOn(performance, "now");
    const from = performance.now();
    clock.mockReturnValue(from);
    const limits = new QueueLimits();
    limits.learn({ ...answer(), waitMs: 9 }, 1);
    expect(limits.againMs).toBeCloseTo(10);
    clock.mockReturnValue(from + 8);
    expect(limits.againMs).toBeCloseTo(2);
    clock.mockReturnValue(from + 20);
    expect(limits.againMs).toBe(0);
    clock.mockRestore();
  });
});
