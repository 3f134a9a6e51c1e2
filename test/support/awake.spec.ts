import { setTimeout as sleep } from "node:timers/promises";
import { awake } from "./awake.js";

describe("awake", () => {
  it("counts what is waited", async () => {
    const waits = async () => {
      for (let n = 0; n < 20; n++) await sleep(20);
    };
    expect(await awake(waits())).toBeGreaterThan(200);
  });

  it("does not count that the loop stood still", async () => {
    const stands = async () => {
      await sleep(20);
      const end = performance.now() + 2_000;
      while (performance.now() < end);
    };
    expect(await awake(stands())).toBeLessThan(1_000);
  });

  it("rejects as the work does", async () => {
    await expect(awake(Promise.reject(new Error("its own")))).rejects.toThrow("its own");
  });
});
