import { describe, nearest } from "./options-check.js";

// Times of the wall clock of a zone, as ms that a clock at UTC would show, and the instants that they are.

/** Of all zones that this Node.js knows, some hundred; asked for at the first bad one, which takes a while. */
let names: readonly string[] | undefined;

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;

/** What a change of the clock does to times: those between `first` and `end` do not exist, or occur twice. */
export interface ClockChange {
  readonly at: number;
  /** What the clock shows just then, had it not been changed, and what it is changed to. */
  readonly from: number;
  readonly to: number;
}

export class TimeZone {
  readonly #format: Intl.DateTimeFormat;

  private constructor(readonly name: string) {
    this.#format = new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      hourCycle: "h23",
      era: "short",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  }

  /** @returns what is wrong when it is not known: only names are taken, since an offset knows no change of clock. */
  static of(name: unknown): TimeZone | string {
    if (typeof name !== "string")
      return `expected the name of a time zone such as 'Europe/Berlin', found ${describe(name)}`;
    const shown = JSON.stringify(name.length > 40 ? `${name.slice(0, 40)}…` : name);
    if (/^[a-z][\w+/-]{0,63}$/i.test(name)) {
      try {
        return new TimeZone(name);
      } catch {
        // It is none: told below.
      }
    }
    names ??= Intl.supportedValuesOf("timeZone");
    const first = name.slice(0, 1).toLowerCase();
    const near = nearest(
      name,
      names.filter((known) => known.slice(0, 1).toLowerCase() === first),
    );
    return `expected the name of a time zone such as 'Europe/Berlin', found ${shown}${near ? `; did you mean '${near}'?` : ""}`;
  }

  /** What its clock shows at an instant. */
  wall(instant: number): number {
    return instant + this.offset(instant);
  }

  /** How far its clock is ahead of UTC. */
  offset(instant: number): number {
    const seconds = Math.floor(instant / SECOND_MS) * SECOND_MS;
    const part: Record<string, string> = {};
    for (const { type, value } of this.#format.formatToParts(seconds)) part[type] = value;
    const wall = Date.UTC(
      Number(part.year),
      Number(part.month) - 1,
      Number(part.day),
      Number(part.hour),
      Number(part.minute),
      Number(part.second),
    );
    return wall - seconds;
  }

  /** The first instant at which its clock shows this, or would: the change that leaves it out. */
  first(wall: number): number {
    const [before, after] = this.#around(wall);
    const instants = [before, after]
      .map((offset) => wall - offset)
      .filter((instant) => this.wall(instant) === wall);
    return instants.length > 0 ? Math.min(...instants) : this.#change(wall, before).at;
  }

  /** The change that makes this time occur twice. */
  repeating(wall: number): ClockChange | undefined {
    const [before, after] = this.#around(wall);
    if (before <= after || this.wall(wall - before) !== wall || this.wall(wall - after) !== wall)
      return undefined;
    return this.#change(wall, before);
  }

  /** No zone is a day away from UTC: the offsets before and after whatever this time may be. */
  #around(wall: number): [number, number] {
    return [this.offset(wall - DAY_MS), this.offset(wall + DAY_MS)];
  }

  /** The change within a day of this time, after which the offset is not `before` any more. */
  #change(wall: number, before: number): ClockChange {
    let [low, high] = [wall - DAY_MS, wall + DAY_MS].map((one) => Math.floor(one / SECOND_MS)) as [
      number,
      number,
    ];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.offset(middle * SECOND_MS) === before) low = middle;
      else high = middle;
    }
    const at = high * SECOND_MS;
    return { at, from: at + before, to: this.wall(at) };
  }
}
