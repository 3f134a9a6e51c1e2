import { CronExpressionParser } from "cron-parser";
import { type Cron, parseCron } from "./cron.js";

const cron = (text: string): Cron => {
  const parsed = parseCron(text);
  if (Array.isArray(parsed)) throw new Error(parsed.join("\n"));
  return parsed;
};

/** The first times after a date, as a clock at UTC shows them. */
function times(text: string, after: string, count: number): string[] {
  const parsed = cron(text);
  const found: string[] = [];
  for (let at = Date.parse(after); found.length < count; found.push(new Date(at).toISOString()))
    at = parsed.next(at)!;
  return found;
}

describe("times", () => {
  it.each([
    ["30 8 * * mon-fri", "2026-11-20T09:00Z", ["2026-11-23T08:30", "2026-11-24T08:30"]],
    ["*/20 * * * * *", "2026-11-20T09:00:20Z", ["2026-11-20T09:00:40", "2026-11-20T09:01:00"]],
    ["0 0 L * *", "2027-12-31T00:00Z", ["2028-01-31T00:00", "2028-02-29T00:00"]],
    ["0 12 * * 5L", "2026-11-01T00:00Z", ["2026-11-27T12:00", "2026-12-25T12:00"]],
    ["0 12 * * fri#2", "2026-11-01T00:00Z", ["2026-11-13T12:00", "2026-12-11T12:00"]],
    ["0 0 29 2 *", "2026-01-01T00:00Z", ["2028-02-29T00:00", "2032-02-29T00:00"]],
    ["0 0 29 2 *", "2096-03-01T00:00Z", ["2104-02-29T00:00"]],
    ["0 0 * 2 sun#5", "2076-03-01T00:00Z", ["2104-02-29T00:00"].slice(1)],
    ["@monthly", "2026-12-01T00:00Z", ["2027-01-01T00:00"]],
    ["0 0 * * 7", "2026-11-20T00:00Z", ["2026-11-22T00:00"]],
    ["0 0 1-31 * sat,sun", "2026-11-20T00:00Z", ["2026-11-21T00:00", "2026-11-22T00:00"]],
    ["5/20 4 * * ?", "2026-11-20T00:00Z", ["2026-11-20T04:05", "2026-11-20T04:25"]],
    ["59 59 23 31 12 *", "2026-11-20T00:00Z", ["2026-12-31T23:59:59"]],
  ])("%s after %s", (text, after, expected) => {
    const found = times(text, after, expected.length);
    expect(found).toEqual(expected.map((at) => new Date(`${at}Z`).toISOString()));
  });

  it("are those of an independent program, wherever both take the expression", () => {
    const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;
    const some = (least: number, most: number) => {
      const a = least + Math.floor(Math.random() * (most - least));
      const b = a + 1 + Math.floor(Math.random() * (most - a));
      return pick([
        "*",
        String(a),
        `${a}-${b}`,
        `*/${Math.min(2 + (a % 7), most - least)}`,
        `${a},${b}`,
      ]);
    };
    for (let run = 0; run < 2_000; run++) {
      const day = Math.random() < 0.5 ? [some(1, 28), "*"] : ["*", some(0, 6)];
      const text = [some(0, 59), some(0, 59), some(0, 23), day[0], some(1, 12), day[1]].join(" ");
      const after = Date.UTC(2026, 0, 1) + Math.floor(Math.random() * 1e11);
      const theirs = CronExpressionParser.parse(text, { tz: "UTC", currentDate: new Date(after) });
      const ours = cron(text);
      let at = after;
      for (let tick = 0; tick < 5; tick++) {
        at = ours.next(at)!;
        expect([text, new Date(at).toISOString()]).toEqual([text, theirs.next().toISOString()]);
      }
    }
  });
});

describe("what is refused", () => {
  it.each<[unknown, RegExp]>([
    [undefined, /expected a cron expression.*found undefined/],
    [5, /expected a cron expression.*found 5/],
    ["", /five fields .*found 0/],
    ["* * * *", /five fields .*found 4/],
    ["0 0 1 1 * * 2020", /found 7/],
    ["60 * * * *", /minute: expected 0\.\.59, found "60"/],
    ["* 24 * * *", /hour: expected 0\.\.23, found "24"/],
    ["* * 0 * *", /day of month: expected 1\.\.31, found "0"/],
    ["* * * 13 *", /month: expected 1\.\.12 or jan\.\.dec, found "13"/],
    ["* * * * tuesday", /day of week: expected 0\.\.7 or sun\.\.sat/],
    ["a b c d e", /minute: .*\n?/],
    ["-1 * * * *", /minute: expected/],
    ["1e3 * * * *", /minute: expected/],
    ["*/0 * * * *", /a step of 1\.\.59/],
    ["*/90 * * * *", /a step of 1\.\.59, found "\*\/90": a step begins anew/],
    ["0 22-2 * * *", /ascends, found "22-2"; write 22-23,0-2/],
    ["0 0 30 2 *", /a date that exists.*never comes/],
    ["0 0 31 4,6,9,11 *", /never comes/],
    ["0 0 13 * 5", /expected one of them, found "13" and "5"/],
    ["0 0 * * fri#6", /the first to the fifth/],
    ["@reboot", /expected one of @yearly/],
    ["0 0 15W * *", /L is the last one/],
    ["0 0 * * 1,,2", /day of week/],
    ["* ".repeat(200), /at most 200 characters/],
  ])("%j", (text, problem) => {
    const problems = parseCron(text);
    expect(Array.isArray(problems)).toBe(true);
    expect((problems as string[]).join("\n")).toMatch(problem);
  });

  it("is told all at once", () => {
    expect(parseCron("60 24 0 13 9")).toHaveLength(5);
  });

  it("in no time", () => {
    const hostile = ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "9".repeat(10_000_000), "1,".repeat(99)];
    for (const text of hostile) {
      const took = Array.from({ length: 10 }, () => {
        const from = performance.now();
        parseCron(text);
        return performance.now() - from;
      });
      expect([text.slice(0, 20), Math.min(...took) < 5]).toEqual([text.slice(0, 20), true]);
    }
  });
});
