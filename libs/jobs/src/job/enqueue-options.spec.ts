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
      unique: null,
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
      unique: null,
    });
    expect(parseEnqueueOptions(definition, { delay: 0 }).delayMs).toBe(0);
  });

  it("reads what a key asks for beyond the plain one", () => {
    const unique = (options: EnqueueOptions) =>
      parseEnqueueOptions(definition, { key: "k", ...options }).unique;
    expect(unique({ onConflict: "keep" })).toBeNull();
    expect(unique({ window: "1h" })).toEqual({ windowMs: 3_600_000, onConflict: "keep" });
    expect(unique({ onConflict: "replace" })).toEqual({ windowMs: null, onConflict: "replace" });
    expect(unique({ window: "3652.5d", onConflict: "replace-time" })).toEqual({
      windowMs: 315_576_000_000,
      onConflict: "replace-time",
    });
  });

  it("tells what a window and onConflict need, and what was meant", () => {
    const message = (options: object) => {
      try {
        parseEnqueueOptions(definition, options);
        return "";
      } catch (error) {
        return (error as OptionsError).message;
      }
    };
    expect(message({ window: "1h", onConflict: "replace" })).toBe(
      'Invalid options of enqueue "a":\n' +
        "  - window: expected a key beside it, found none\n" +
        "  - onConflict: expected a key beside it, found none",
    );
    expect(message({ key: "k", onConflict: "replace-paylod" })).toMatch(
      /onConflict: expected 'keep' or .* found "replace-paylod"; did you mean 'replace-payload'\?/,
    );
    expect(message({ key: "k", windows: 1 })).toMatch(/did you mean window\?/);
    expect(message({ key: "k", onconflict: "keep" })).toMatch(/did you mean onConflict\?/);
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
    { onConflict: "keep" },
    { onConflict: "replace" },
    { key: "k", window: 0 },
    { key: "k", window: -1 },
    { key: "k", window: "11y" },
    { key: "k", window: 315_576_000_001 },
    { key: "k", window: null },
    { key: "k", onConflict: "overwrite" },
    { key: "k", onConflict: null },
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
