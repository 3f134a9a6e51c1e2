import { describe } from "./options-check.js";
import { type CronField, type FieldRange, parseField } from "./cron-field.js";

// Cron expressions, as times of a wall clock that knows no time zone: `time-zone.ts` makes instants of them.

export interface Cron {
  /** Its second fields and names spelled out: five or six fields. */
  readonly text: string;
  /** It names each hour of the day: it goes on through an hour that a change of clock repeats. */
  readonly everyHour: boolean;
  /** The first time after this one, both in ms as a clock at UTC shows them; undefined when none comes. */
  next(after: number): number | undefined;
}

const MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split(" ");
const DAYS = "sun mon tue wed thu fri sat".split(" ");
const FIELDS: readonly FieldRange[] = [
  { name: "second", min: 0, max: 59 },
  { name: "minute", min: 0, max: 59 },
  { name: "hour", min: 0, max: 23 },
  { name: "day of month", min: 1, max: 31 },
  { name: "month", min: 1, max: 12, names: MONTHS },
  { name: "day of week", min: 0, max: 7, names: DAYS },
];
const MEANINGS: Record<string, string> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};
const MAX_LENGTH = 200;
/** The longest wait of any expression: a fifth weekday of February, over a century without a leap day. */
const MAX_YEARS = 41;
const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;

/** What a cron expression says. @returns all problems, when there are any. */
export function parseCron(text: unknown): Cron | string[] {
  if (typeof text !== "string")
    return [`expected a cron expression such as '30 8 * * mon-fri', found ${describe(text)}`];
  if (text.length > MAX_LENGTH)
    return [`expected at most ${MAX_LENGTH} characters, found ${text.length}`];
  const words = (MEANINGS[text.trim().toLowerCase()] ?? text.trim()).split(/\s+/);
  if (words[0]!.startsWith("@"))
    return [
      `expected one of ${Object.keys(MEANINGS).join(", ")}, found ${JSON.stringify(words[0])}`,
    ];
  if (words.length !== 5 && words.length !== 6)
    return [
      `expected five fields (${FIELDS.slice(1)
        .map(({ name }) => name)
        .join(
          ", ",
        )}), or six with the second before them, found ${words[0] === "" ? 0 : words.length}`,
    ];
  const fields = words.length === 5 ? ["0", ...words] : words;
  const days = parseDays(fields[3]!, fields[5]!);
  const parsed = [0, 1, 2, 4].map((index) => parseField(fields[index]!, FIELDS[index]!));
  const problems = [...parsed, ...days].filter((one) => typeof one === "string");
  if (problems.length > 0) return problems;
  const [seconds, minutes, hours, months] = parsed as CronField[];
  const clock = new Clock(seconds!, minutes!, hours!);
  const calendar = new Calendar(months!, days as DayRule[]);
  const cron: Cron = {
    text: fields.join(" "),
    everyHour: hours!.all,
    next: (after) => next(clock, calendar, after),
  };
  // Any beginning would do: the calendar repeats itself.
  return cron.next(Date.UTC(2000, 0, 1)) === undefined
    ? [`expected a date that exists, found ${JSON.stringify(text)}, which never comes`]
    : cron;
}

function next(clock: Clock, calendar: Calendar, after: number): number | undefined {
  const from = Math.floor(after / SECOND_MS) * SECOND_MS + SECOND_MS;
  const midnight = Math.floor(from / DAY_MS) * DAY_MS;
  const sameDay = calendar.has(midnight) ? clock.from((from - midnight) / SECOND_MS) : undefined;
  if (sameDay !== undefined) return midnight + sameDay * SECOND_MS;
  const day = calendar.after(midnight);
  return day === undefined ? undefined : day + clock.from(0)! * SECOND_MS;
}

/** The times of a day, in seconds. */
class Clock {
  constructor(
    private readonly seconds: CronField,
    private readonly minutes: CronField,
    private readonly hours: CronField,
  ) {}

  /** The first one that is not before; undefined when the day has none. */
  from(time: number): number | undefined {
    const [hour, minute, second] = [
      Math.floor(time / 3_600),
      Math.floor(time / 60) % 60,
      time % 60,
    ];
    const [firstMinute, firstSecond] = [this.minutes.values[0]!, this.seconds.values[0]!];
    const inHour = this.hours.values.includes(hour);
    if (inHour && this.minutes.values.includes(minute)) {
      const later = this.seconds.values.find((one) => one >= second);
      if (later !== undefined) return hour * 3_600 + minute * 60 + later;
    }
    const laterMinute = inHour ? this.minutes.values.find((one) => one > minute) : undefined;
    if (laterMinute !== undefined) return hour * 3_600 + laterMinute * 60 + firstSecond;
    const laterHour = this.hours.values.find((one) => one > hour);
    return laterHour === undefined ? undefined : laterHour * 3_600 + firstMinute * 60 + firstSecond;
  }
}

/** Whether a day of a month of so many days, which is a weekday, is meant. */
type DayRule = (day: number, weekday: number, monthLength: number) => boolean;

/** The days, each as its midnight. */
class Calendar {
  constructor(
    private readonly months: CronField,
    private readonly rules: readonly DayRule[],
  ) {}

  has(midnight: number): boolean {
    const date = new Date(midnight);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    if (!this.months.values.includes(month + 1)) return false;
    const length = lengthOf(year, month);
    return this.rules.every((rule) => rule(date.getUTCDate(), date.getUTCDay(), length));
  }

  after(midnight: number): number | undefined {
    const date = new Date(midnight);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    for (let step = 0; step <= MAX_YEARS * 12; step++) {
      const inMonth = (month + step) % 12;
      if (!this.months.values.includes(inMonth + 1)) continue;
      const inYear = year + Math.floor((month + step) / 12);
      const first = Date.UTC(inYear, inMonth, 1);
      const length = lengthOf(inYear, inMonth);
      const weekday = new Date(first).getUTCDay();
      for (let day = step === 0 ? date.getUTCDate() + 1 : 1; day <= length; day++)
        if (this.rules.every((rule) => rule(day, (weekday + day - 1) % 7, length)))
          return first + (day - 1) * DAY_MS;
    }
    return undefined;
  }
}

const lengthOf = (year: number, month: number): number =>
  new Date(Date.UTC(year, month + 1, 0)).getUTCDate();

/** A field for days: which of them it names, and whether it names all. */
interface DayField {
  readonly rule: DayRule;
  readonly all: boolean;
}

/** The rules of both fields for days, or what is wrong with them. */
function parseDays(ofMonth: string, ofWeek: string): (DayRule | string)[] {
  const fields = [parseDayOfMonth(ofMonth), parseDayOfWeek(ofWeek)];
  const given = fields.filter((field) => typeof field !== "string" && !field.all);
  if (given.length > 1)
    return [
      `day of month and day of week: expected one of them, found "${ofMonth}" and "${ofWeek}"; some programs run when both fit, others when one does: make two schedules, or test the other one in the handler`,
    ];
  return fields.map((field) => (typeof field === "string" ? field : field.rule));
}

function parseDayOfMonth(text: string): DayField | string {
  if (/^l$/i.test(text)) return { all: false, rule: (day, _weekday, length) => day === length };
  const field = parseField(text, FIELDS[3]!);
  if (typeof field === "string") return `${field}; L is the last one`;
  return { all: field.all, rule: (day) => field.values.includes(day) };
}

const SPECIAL_DAY = /^([a-z]{3}|\d)(?:l|#(\d))$/i;

function parseDayOfWeek(text: string): DayField | string {
  const range = FIELDS[5]!;
  const [, named, nth] = SPECIAL_DAY.exec(text) ?? [];
  const field = parseField(named ?? text, range);
  if (typeof field === "string") return `${field}; 5#2 is the second Friday, 5L the last one`;
  const weekdays = new Set(field.values.map((value) => value % 7));
  const rule: DayRule = (_day, weekday) => weekdays.has(weekday);
  if (named === undefined) return { all: weekdays.size === 7, rule };
  if (nth !== undefined && !"12345".includes(nth))
    return `${range.name}: expected the first to the fifth, found ${JSON.stringify(text)}`;
  return {
    all: false,
    rule: (day, weekday, length) =>
      weekdays.has(weekday) &&
      (nth === undefined ? day > length - 7 : Math.ceil(day / 7) === Number(nth)),
  };
}
