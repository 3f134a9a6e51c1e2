import { defineJob } from "./definition.js";
import type { EnqueueOptions } from "./enqueue-options.js";
import { parseEnqueueOptions } from "./enqueue-options.js";
import { OptionsError } from "./errors.js";

const definition = defineJob("a", { queue: "mail", priority: 3, attempts: 6 });

describe("parseEnqueueOptions", () => {
  it("takes what the definition says, and null where nobody says", () => {
    const open = {
      queue: "mail",
      priority: 3,
      attempts: 6,
      timeoutMs: null,
      delayMs: 0,
      at: null,
      key: null,
    };
    expect(parseEnqueueOptions(definition)).toEqual(open);
    expect(parseEnqueueOptions(definition, {})).toEqual(open);
    expect(parseEnqueueOptions(definition, { delay: undefined, key: undefined })).toEqual(open);
  });

  it("lets the call win", () => {
    const options = { delay: "10m", priority: 0, queue: "q", attempts: 1, timeout: 5, key: "k" };
    expect(parseEnqueueOptions(definition, options)).toEqual({
      queue: "q",
      priority: 0,
      attempts: 1,
      timeoutMs: 5,
      delayMs: 600_000,
      at: null,
      key: "k",
    });
    expect(parseEnqueueOptions(definition, { delay: 0 }).delayMs).toBe(0);
  });

  it("copies the date", () => {
    const at = new Date("2030-01-01");
    const parsed = parseEnqueueOptions(definition, { at });
    at.setTime(0);
    expect(parsed.at).toEqual(new Date("2030-01-01"));
  });

  it.each([
    { delay: "soon" },
    { delay: -1 },
    { delay: 1, at: new Date() },
    { at: new Date(NaN) },
    { at: new Date(-1) },
    { at: new Date(Date.UTC(10_000, 0)) },
    { at: "2030-01-01" },
    { priority: 101 },
    { priority: 0.5 },
    { queue: "" },
    { attempts: 0 },
    { timeout: 0 },
    { key: "" },
    { key: "x".repeat(513) },
    { key: "a\0" },
    { key: "\udc00" },
    { key: 5 },
    { window: "1h" },
    { dely: "1h" },
    null,
    "1h",
    [],
  ])("refuses %p", (options) => {
    expect(() => parseEnqueueOptions(definition, options as EnqueueOptions)).toThrow(OptionsError);
  });

  it("takes keys of the limit, tells all problems, and never shows a key", () => {
    expect(parseEnqueueOptions(definition, { key: "😀".repeat(512) }).key).toHaveLength(1024);
    expect(() =>
      parseEnqueueOptions(definition, { key: "secret\0", dely: 1, priority: 999 } as never),
    ).toThrow(
      /^Invalid options of enqueue "a":\n.*dely: unknown option, did you mean delay\?\n.*priority: .*\n.*found 7 characters$/,
    );
  });
});
