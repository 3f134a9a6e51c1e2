import { jest } from "@jest/globals";
import type { KindCounts } from "nestjs-pg-jobs";
import { Rates } from "./rates.js";

// Rates from counters: over a minute, as far as somebody has looked.

const NOTHING = {
  unfinished: 0,
  succeeded: 0,
  skipped: 0,
  cancelled: 0,
  dead: 0,
  archived: 0,
  pruned: 0,
  deleted: 0,
};
const counts = (some: Partial<KindCounts>): KindCounts => ({
  queue: "mail",
  kind: "send",
  ...NOTHING,
  ...some,
});

describe("rates", () => {
  let rates: Rates;
  let ms = 0;
  const note = (afterMs: number, ...all: KindCounts[]) => {
    ms += afterMs;
    rates.note(all, new Date(ms));
  };
  const mail = (): unknown => {
    const { enqueuedPerSecond, endedPerSecond } = rates.of("mail");
    return [rates.since?.getTime() ?? null, enqueuedPerSecond, endedPerSecond];
  };
  beforeEach(() => {
    rates = new Rates();
    ms = 1_000_000;
    jest.spyOn(performance, "now").mockImplementation(() => ms);
  });
  afterEach(() => void jest.restoreAllMocks());

  it("are not known before there are two readings, a second apart", () => {
    expect(mail()).toEqual([null, null, null]);
    note(0, counts({ unfinished: 5 }));
    expect(mail()).toEqual([null, null, null]);
    note(900, counts({ unfinished: 9 }));
    expect(mail()).toEqual([null, null, null]);
    note(100, counts({ unfinished: 10 }));
    expect(mail()).toEqual([1_000_000, 5, 0]);
  });

  it("say what has come, and what has ended however it did, of all kinds together", () => {
    note(0, counts({ unfinished: 10, succeeded: 5 }), counts({ kind: "other" }));
    note(
      10_000,
      counts({ unfinished: 8, succeeded: 9, skipped: 1, dead: 2, deleted: 1 }),
      counts({ kind: "other", unfinished: 1, pruned: 3, archived: 1, cancelled: 1 }),
    );
    expect(mail()).toEqual([1_000_000, 1.2, 1.3]);
  });

  it("are not changed by a day that goes, nor by letters that are archived", () => {
    note(0, counts({ succeeded: 1_000, dead: 3 }));
    note(5_000, counts({ pruned: 1_000, archived: 3 }));
    expect(mail()).toEqual([1_000_000, 0, 0]);
  });

  it("are never below nothing, when letters are sent again", () => {
    note(0, counts({ dead: 10 }));
    note(5_000, counts({ unfinished: 10 }));
    expect(mail()).toEqual([1_000_000, 0, 0]);
  });

  it("count all of a queue that is new, and nothing of one that nobody knows", () => {
    note(0);
    note(10_000, counts({ unfinished: 3 }));
    expect(mail()).toEqual([1_000_000, 0.3, 0]);
    expect(rates.of("unknown")).toEqual({ enqueuedPerSecond: 0, endedPerSecond: 0 });
  });

  it("reach back a minute while somebody looks, and five when nobody has", () => {
    for (let second = 0; second <= 200; second++)
      note(second === 0 ? 0 : 1_000, counts({ unfinished: second < 140 ? 0 : second - 140 }));
    expect(mail()).toEqual([1_000_000 + 140_000, 1, 0]);
    note(250_000, counts({ unfinished: 310 }));
    expect(mail()).toEqual([1_200_000, 1, 0]);
    note(301_000, counts({ unfinished: 310 }));
    expect(mail()).toEqual([null, null, null]);
  });

  it("have the newest reading at their end, however often it is read", () => {
    note(0, counts({}));
    note(2_000, counts({ unfinished: 2 }));
    for (let n = 0; n < 100; n++) note(10, counts({ unfinished: 3 + n }));
    expect(mail()).toEqual([1_000_000, 34, 0]);
  });
});
