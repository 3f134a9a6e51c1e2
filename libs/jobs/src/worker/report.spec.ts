import { MAX_BYTES, MAX_LINES, Report } from "./report.js";

describe("Report", () => {
  it("has nothing to write until something is said, and nothing after it was taken", () => {
    const report = new Report();
    expect(report.empty).toBe(true);
    report.progress(1, undefined);
    report.log("a", 5);
    expect(report.empty).toBe(false);
    expect(report.take()).toEqual({
      progress: { percent: 1, note: null },
      lines: [{ line: 1, at: 5, text: "a" }],
    });
    expect(report.empty).toBe(true);
    expect(report.take()).toEqual({ progress: null, lines: [] });
  });

  it.each([
    [0, 0],
    [100, 100],
    [33.3, 33.3],
    [-1, 0],
    [101, 100],
    [Infinity, 100],
    [-Infinity, 0],
  ])("takes progress %p for %p", (given, percent) => {
    const report = new Report();
    report.progress(7, undefined);
    report.progress(given, undefined);
    expect(report.take().progress).toEqual({ percent, note: null });
  });

  it.each([Number.NaN, "50", undefined, null, 50n, {}])(
    "progress %p is none: it changes nothing",
    (given) => {
      const report = new Report();
      report.progress(given, "nothing yet");
      expect(report.empty).toBe(true);
      report.progress(7, "half of it");
      report.progress(given, undefined);
      report.progress(given, "wrong");
      expect(report.take().progress).toEqual({ percent: 7, note: "half of it" });
    },
  );

  const hostile = {
    get stack(): string {
      throw new Error("no");
    },
    [Symbol.for("nodejs.util.inspect.custom")]() {
      throw new Error("no");
    },
  };
  it.each([
    ["", ""],
    ["a\0b", "a\ufffdb"],
    ["a\ud800b", "a\ufffdb"],
    ["two\nlines", "two\nlines"],
    [7, "7"],
    [undefined, "undefined"],
    [null, "null"],
    [Symbol("s"), "Symbol(s)"],
    [{ a: [1] }, "{ a: [ 1 ] }"],
    [hostile, "something that cannot be shown"],
  ])("makes of the line %# something that can be stored", (given, text) => {
    const report = new Report();
    report.log(given, 0);
    expect(report.take().lines).toEqual([{ line: 1, at: 0, text }]);
  });

  it("cuts what is too long, between characters", () => {
    const report = new Report();
    report.log("x".repeat(1e6), 0);
    report.log(`${"x".repeat(7_998)}😀😀`, 0);
    report.progress(1, "y".repeat(1e6));
    const { progress, lines } = report.take();
    expect(lines.map(({ text }) => [text.length, text.at(-1)])).toEqual([
      [8_000, "…"],
      [7_999, "…"],
    ]);
    expect(lines.some(({ text }) => /\p{Surrogate}/u.test(text))).toBe(false);
    expect(progress!.note).toHaveLength(1_000);
  });

  it("keeps so many lines, whatever was taken in between, and then one that says so", () => {
    const report = new Report();
    const kept: { line: number; text: string }[] = [];
    for (let n = 0; n < MAX_LINES + 50; n++) {
      report.log(`line ${n}`, 0);
      if (n % 7 === 0) kept.push(...report.take().lines);
    }
    kept.push(...report.take().lines);
    expect(kept.map(({ line }) => line)).toEqual(
      Array.from({ length: MAX_LINES + 1 }, (_, n) => n + 1),
    );
    expect(kept.at(-2)!.text).toBe(`line ${MAX_LINES - 1}`);
    expect(kept.at(-1)!.text).toMatch(/^The log is full: .*1000 lines and 64 kB/);
  });

  it("keeps so many bytes, and then a line that says so", () => {
    const report = new Report();
    for (let n = 0; n < 100; n++) report.log("ä".repeat(1_000), 0);
    const { lines } = report.take();
    expect(lines).toHaveLength(Math.floor(MAX_BYTES / 2_000) + 1);
    expect(lines.at(-1)!.text).toMatch(/^The log is full/);
  });

  it("takes back what was not written, before what is newer", () => {
    const report = new Report();
    report.progress(1, "old");
    report.log("first", 0);
    const taken = report.take();
    report.log("second", 0);
    report.progress(2, "new");
    report.putBack(taken);
    expect(report.take()).toEqual({
      progress: { percent: 2, note: "new" },
      lines: [
        { line: 1, at: 0, text: "first" },
        { line: 2, at: 0, text: "second" },
      ],
    });
    report.putBack(taken);
    expect(report.take().progress).toEqual({ percent: 2, note: "new" });
  });
});
