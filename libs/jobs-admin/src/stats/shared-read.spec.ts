import { jest } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import { SharedRead } from "./shared-read.js";

// Whoever looks shares what one of them has read.

describe("a shared reading", () => {
  let reads = 0;
  let takes: Promise<unknown> = Promise.resolve();
  let shared: SharedRead<number>;
  beforeEach(() => {
    reads = 0;
    takes = Promise.resolve();
    shared = new SharedRead(async () => {
      const mine = ++reads;
      await takes;
      return mine;
    });
  });
  /** That many ms later, as far as it knows. */
  const later = (ms: number) => {
    const now = performance.now() + ms;
    jest.spyOn(performance, "now").mockReturnValue(now);
  };
  afterEach(() => void jest.restoreAllMocks());
  /** The next reading takes until it is let go. */
  const held = (): { resolve: () => void } => {
    let resolve!: () => void;
    takes = new Promise<void>((done) => (resolve = done));
    return { resolve };
  };
  const value = async () => (await shared.get()).value;

  it("is one for all who ask at once, and within a second", async () => {
    expect(await Promise.all([value(), value(), value()])).toEqual([1, 1, 1]);
    later(900);
    expect(await value()).toBe(1);
    later(200);
    expect(await value()).toBe(2);
  });

  it("is not waited for when there is one that is not much older", async () => {
    await value();
    const gate = held();
    later(1_500);
    expect(await Promise.all([value(), value()])).toEqual([1, 1]);
    expect(reads).toBe(2);
    gate.resolve();
    await sleep(1);
    expect(await value()).toBe(2);
  });

  it("is waited for when the last one is too old, or forgotten", async () => {
    await value();
    later(2_001);
    expect(await value()).toBe(2);
    shared.forget();
    expect(await value()).toBe(3);
  });

  it("that began before it was forgotten is told to no one else", async () => {
    const gate = held();
    const before = value();
    shared.forget();
    takes = Promise.resolve();
    expect(await value()).toBe(2);
    gate.resolve();
    expect(await before).toBe(1);
    expect(await value()).toBe(2);
  });

  it("that fails is told to who waits for it, and not kept", async () => {
    takes = Promise.reject(new Error("away"));
    await expect(Promise.all([value(), value()])).rejects.toThrow("away");
    takes = Promise.resolve();
    expect(await value()).toBe(2);
  });

  it("says when it began", async () => {
    const { at } = await shared.get();
    expect(Math.abs(at.getTime() - Date.now())).toBeLessThan(5_000);
    expect(await shared.get()).toMatchObject({ at });
  });
});
