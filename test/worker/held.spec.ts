import { Held, LAYOUT } from "../../libs/jobs/src/worker/held.js";
import type { Claim } from "../../libs/jobs/src/store/transitions/claim.js";
import { claimOf } from "../support/claims.js";

const claim = (over: Partial<Claim> = {}): Claim =>
  claimOf({
    id: "9007199254740993", // more than a double can tell apart
    queueId: 7,
    attempt: 2,
    worker: 11,
    ...over,
  });

describe("Held: what the renewing thread reads", () => {
  /** A slot as the other thread sees it. */
  function seen(held: Held, slot: number) {
    const numbers = new Float64Array(held.memory);
    const integers = new BigInt64Array(held.memory);
    const at = LAYOUT.header + slot * LAYOUT.stride;
    return {
      version: integers[at + LAYOUT.version]!,
      id: integers[at + LAYOUT.id]!,
      queue: numbers[at + LAYOUT.queue],
      attempt: numbers[at + LAYOUT.attempt],
      worker: numbers[at + LAYOUT.worker],
      until: numbers[at + LAYOUT.until],
      renewedAt: numbers[at + LAYOUT.renewedAt],
    };
  }

  it("a claim: its whole fence, when it was sent, and that it waits", () => {
    const held = new Held(3);
    const slot = held.hold(claim(), 1_234.5);
    expect(seen(held, slot)).toEqual({
      version: 2n,
      id: 9007199254740993n,
      queue: 7,
      attempt: 2,
      worker: 11,
      until: 0,
      renewedAt: 1_234.5,
    });
    expect(held.renewedAt(slot)).toBe(1_234.5);
  });

  it("from its start on: until when it is renewed", () => {
    const held = new Held(1);
    const slot = held.hold(claim(), 1);
    held.start(slot, 99.5);
    expect(seen(held, slot)).toMatchObject({ id: 9007199254740993n, until: 99.5 });
  });

  it("a newer attempt of the same job takes the slot over under a new version", () => {
    const held = new Held(1);
    const slot = held.hold(claim(), 1);
    held.adopt(slot, claim({ attempt: 3, worker: 12 }), 50, 2);
    expect(seen(held, slot)).toMatchObject({
      version: 4n,
      attempt: 3,
      worker: 12,
      until: 50,
      renewedAt: 2,
    });
  });

  it("a released slot is empty, and is used again under a new version", () => {
    const held = new Held(1);
    const slot = held.hold(claim(), 1);
    const { version } = seen(held, slot);
    held.release(slot);
    expect(seen(held, slot)).toMatchObject({ id: 0n });
    expect(held.hold(claim({ id: "5" }), 2)).toBe(slot);
    expect(seen(held, slot)).toMatchObject({ id: 5n, until: 0 });
    expect(seen(held, slot).version).toBeGreaterThan(version);
    // Even: nobody writes. An odd one tells the reader to wait.
    expect(seen(held, slot).version % 2n).toBe(0n);
  });

  it("slots do not touch each other, and there are as many as were asked for", () => {
    const held = new Held(100);
    const slots = Array.from({ length: 100 }, (_, i) =>
      held.hold(claim({ id: String(i + 1), attempt: i }), i),
    );
    expect(new Set(slots).size).toBe(100);
    for (const [i, slot] of slots.entries())
      expect(seen(held, slot)).toMatchObject({ id: BigInt(i + 1), attempt: i, renewedAt: i });
    expect(() => held.hold(claim(), 1)).toThrow("more claims than slots");
  });

  it("the main thread's tick is the first word", () => {
    const held = new Held(1);
    const numbers = new Float64Array(held.memory);
    const before = numbers[0]!;
    expect(before).toBeGreaterThan(0);
    held.tick();
    expect(numbers[0]).toBeGreaterThanOrEqual(before);
  });
});
