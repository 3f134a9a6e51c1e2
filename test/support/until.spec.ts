import { until } from "./until.js";

describe("until", () => {
  it("returns the truthy value as soon as there is one", async () => {
    let calls = 0;
    await expect(until(() => ++calls === 3 && `call ${calls}`, { every: 1 })).resolves.toBe(
      "call 3",
    );
  });

  it("waits for promises, and goes on when the check throws", async () => {
    let calls = 0;
    const check = async () => {
      if (++calls < 3) throw new Error("not there yet");
      return calls;
    };
    await expect(until(check, { every: 1 })).resolves.toBe(3);
  });

  it("names what it waited for and the last value", async () => {
    const waiting = until(() => 0, { timeout: 10, every: 1, what: "the job is done" });
    await expect(waiting).rejects.toThrow(
      "gave up waiting until the job is done after 10 ms; last value: 0",
    );
  });

  it("names the last error", async () => {
    const check = () => {
      throw new Error("connection refused");
    };
    await expect(until(check, { timeout: 10, every: 1 })).rejects.toThrow(
      /last error: Error: connection refused/,
    );
  });

  it("gives up on a check that never returns", async () => {
    const check = () => new Promise<boolean>(() => {});
    await expect(until(check, { timeout: 30, what: "it answers" })).rejects.toThrow(
      /it answers after 30 ms; last error: Error: the check did not return in time/,
    );
  });
});
