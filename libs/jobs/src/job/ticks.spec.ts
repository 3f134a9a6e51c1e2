import { CronExpressionParser } from "cron-parser";
import { type Cron, parseCron } from "./cron.js";
import { dueTicks, nextTick, ticks } from "./ticks.js";
import { TimeZone } from "./time-zone.js";

const cronOf = (text: string) => parseCron(text) as Cron;
const zoneOf = (name: string) => TimeZone.of(name) as TimeZone;
const found = (text: string, zone: string, from: string, until: string) =>
  [
    ...ticks(cronOf(text), zoneOf(zone), { after: Date.parse(from) - 1, until: Date.parse(until) }),
  ].map((at) => new Date(at).toISOString().slice(0, 16));

describe("changes of clock", () => {
  it.each([
    // 02:00 to 03:00 does not exist: once, at the first instant after it
    ["30 2 * * *", "America/New_York", "2026-03-08", ["2026-03-08T07:00"]],
    ["*/15 2 * * *", "America/New_York", "2026-03-08", ["2026-03-08T07:00"]],
    [
      "*/30 1-3 * * *",
      "America/New_York",
      "2026-03-08",
      ["2026-03-08T06:00", "2026-03-08T06:30", "2026-03-08T07:00", "2026-03-08T07:30"],
    ],
    // midnight does not exist
    ["0 0 * * *", "America/Santiago", "2026-09-06", ["2026-09-06T04:00"]],
    ["*/20 0 * * *", "America/Santiago", "2026-09-06", ["2026-09-06T04:00"]],
    // by half an hour
    ["15 2 * * *", "Australia/Lord_Howe", "2026-10-03", ["2026-10-03T15:30"]],
    ["45 1 * * *", "Australia/Lord_Howe", "2026-04-04", ["2026-04-04T14:45"]],
    // 01:00 to 02:00 occurs twice: the first one counts
    ["30 1 * * *", "America/New_York", "2026-11-01", ["2026-11-01T05:30"]],
    ["*/30 2 * * *", "Europe/Berlin", "2026-10-25", ["2026-10-25T00:00", "2026-10-25T00:30"]],
    [
      "0 1-3 * * *",
      "Europe/Berlin",
      "2026-10-24T22:00Z",
      ["2026-10-24T23:00", "2026-10-25T00:00", "2026-10-25T02:00"],
    ],
    // every hour goes on
    [
      "0 * * * *",
      "Europe/Berlin",
      "2026-10-24T23:00Z",
      Array.from({ length: 24 }, (_, hour) =>
        new Date(Date.parse("2026-10-24T23:00Z") + hour * 3_600_000).toISOString().slice(0, 16),
      ),
    ],
    // a whole day does not exist
    ["0 12 30 12 *", "Pacific/Apia", "2011-12-30T00:00Z", ["2011-12-30T10:00"]],
  ])("%s in %s on %s", (text, zone, from, expected) => {
    const until = new Date(Date.parse(from) + 86_399_000).toISOString();
    expect(found(text, zone, from, until)).toEqual(expected);
  });
});

const ZONES = [
  "America/New_York",
  "Europe/Berlin",
  "Australia/Lord_Howe",
  "America/Santiago",
  "Africa/Casablanca",
  "Asia/Kolkata",
  "UTC",
];
const PATTERNS = [
  "30 2 * * *",
  "*/20 0-3 * * *",
  "0 0 * * *",
  "15 */2 * * *",
  "0 1,2,3 * * sun",
  "5 * * * *",
  "*/7 * * * *",
];

const HOUR = 3_600_000;

/** What each minute shows on the clock of a zone. */
function shown(zone: string, from: number, until: number): [at: number, wall: number][] {
  const format = new Intl.DateTimeFormat("sv-SE", {
    timeZone: zone,
    dateStyle: "short",
    timeStyle: "medium",
  });
  return Array.from({ length: (until - from) / 60_000 }, (_, minute) => {
    const at = from + minute * 60_000;
    return [at, Date.parse(`${format.format(at).replace(" ", "T")}Z`)];
  });
}

/** What is promised, minute by minute and knowing nothing of changes: an independent way to the same ticks. */
function byMinutes(cron: Cron, minutes: readonly [at: number, wall: number][]): number[] {
  const matches = (wall: number) => cron.next(wall - 1) === wall;
  const result: number[] = [];
  const seen = new Set<number>();
  let before = minutes[0]![1] - 60_000;
  for (const [at, wall] of minutes) {
    let due = matches(wall) && (cron.everyHour || !seen.has(wall));
    for (let left = before + 60_000; left < wall; left += 60_000) due ||= matches(left);
    if (due) result.push(at);
    seen.add(wall);
    before = wall;
  }
  return result;
}

it.each(ZONES)(
  "%s: around each change of a year, ticks are those found minute by minute",
  (name) => {
    const zone = zoneOf(name);
    const days = Array.from({ length: 365 }, (_, day) => Date.UTC(2026, 0, 1) + day * 24 * HOUR);
    const changing = days.filter((day) => zone.offset(day) !== zone.offset(day + 24 * HOUR));
    for (const day of changing.length > 0 ? changing : days.slice(0, 1)) {
      const [from, until] = [day - 24 * HOUR, day + 48 * HOUR];
      const minutes = shown(name, from, until);
      for (const pattern of PATTERNS) {
        const cron = cronOf(pattern);
        const ours = [...ticks(cron, zone, { after: from - 1, until: until - 1 })];
        expect([pattern, ours]).toEqual([pattern, byMinutes(cron, minutes)]);
      }
    }
  },
);

it.each(ZONES)(
  "%s: ticks are those of an independent program away from changes of clock",
  (zone) => {
    const timeZone = zoneOf(zone);
    const nearChange = (at: number) =>
      timeZone.offset(at - 86_400_000) !== timeZone.offset(at + 86_400_000);
    for (const pattern of PATTERNS)
      for (let run = 0; run < 60; run++) {
        const after = Date.UTC(2026, 0, 1) + Math.floor(Math.random() * 365 * 86_400) * 1_000;
        if (nearChange(after) || nearChange(after + 7 * 86_400_000)) continue;
        const theirs = CronExpressionParser.parse(pattern, {
          tz: zone,
          currentDate: new Date(after),
        });
        const expected = theirs.next().getTime();
        if (nearChange(expected)) continue;
        expect([pattern, nextTick(cronOf(pattern), timeZone, after)]).toEqual([pattern, expected]);
      }
  },
);

describe("zones", () => {
  it.each<[unknown, RegExp]>([
    ["Europe/Berln", /did you mean 'Europe\/Berlin'/],
    ["+02:00", /expected the name of a time zone/],
    ["", /expected the name/],
    [undefined, /expected the name/],
    ["x".repeat(10_000), /expected the name/],
    ["__proto__", /expected the name/],
  ])("%j is refused", (name, problem) => {
    expect(TimeZone.of(name)).toMatch(problem);
  });

  it.each(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])(
    "%s is taken",
    (name) => {
      expect(TimeZone.of(name)).toBeInstanceOf(TimeZone);
    },
  );
});

describe("ticks that are due", () => {
  const hourly = { cron: cronOf("0 * * * *"), zone: zoneOf("UTC") };
  const at = (text: string) => Date.parse(`2026-11-19T${text}Z`);
  const due = (misfire: "skip" | "one" | "all", tick: string, now: string) => {
    const { fire, next } = dueTicks({ ...hourly, misfire }, at(tick), at(now));
    return [...fire, next!].map((one) => new Date(one).toISOString().slice(11, 16));
  };

  it.each(["skip", "one", "all"] as const)(
    "%s: one that is seen in time is enqueued",
    (misfire) => {
      expect(due(misfire, "08:00", "07:59:59.999")).toEqual(["08:00"]);
      expect(due(misfire, "08:00", "08:00")).toEqual(["08:00", "09:00"]);
      expect(due(misfire, "08:00", "08:01:00")).toEqual(["08:00", "09:00"]);
    },
  );

  it("those of an outage: none, the last, all", () => {
    expect(due("skip", "08:00", "11:30")).toEqual(["12:00"]);
    expect(due("one", "08:00", "11:30")).toEqual(["11:00", "12:00"]);
    expect(due("all", "08:00", "11:30")).toEqual(["08:00", "09:00", "10:00", "11:00", "12:00"]);
  });

  it("the last one is in time though others before it were missed", () => {
    expect(due("skip", "08:00", "11:00:30")).toEqual(["11:00", "12:00"]);
  });

  it("all of a long outage come in parts", () => {
    const { fire, next } = dueTicks({ ...hourly, misfire: "all" }, at("00:00"), at("00:00") + 1e9);
    expect(fire).toHaveLength(100);
    expect(next).toBe(fire.at(-1)! + 3_600_000);
  });

  it("of millions that were missed the last one is found at once", () => {
    const secondly = { cron: cronOf("* * 0-22 * * *"), zone: zoneOf("Europe/Berlin") };
    const now = Date.parse("2026-11-19T22:30:00Z");
    const from = performance.now();
    const { fire } = dueTicks(
      { ...secondly, misfire: "one" },
      Date.parse("2026-05-01T00:00:00Z"),
      now,
    );
    expect(performance.now() - from).toBeLessThan(50);
    expect(fire.map((one) => new Date(one).toISOString())).toEqual(["2026-11-19T21:59:59.000Z"]);
  });
});
