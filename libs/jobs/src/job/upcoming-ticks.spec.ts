import { type Foreseen, upcomingTicks } from "./upcoming-ticks.js";

const daily: Foreseen = {
  cron: "0 30 2 * * *",
  timeZone: "Europe/Berlin",
  nextAt: new Date("2026-03-28T01:30:00Z"),
  paused: null,
  retiredAt: null,
};
const told = (schedule: Partial<Foreseen>, count = 3) =>
  upcomingTicks({ ...daily, ...schedule }, count).map((at) => at.toISOString());

it("begins with the tick that is foreseen, and goes on over a change of clock", () => {
  expect(told({})).toEqual([
    "2026-03-28T01:30:00.000Z",
    "2026-03-29T01:00:00.000Z", // half past two does not exist that night
    "2026-03-30T00:30:00.000Z",
  ]);
});

it("goes on after a pause that has an end, and has none otherwise", () => {
  const until = new Date("2026-03-30T00:30:00Z");
  expect(told({ paused: { until } }, 1)).toEqual(["2026-03-31T00:30:00.000Z"]);
  expect(told({ paused: { until: new Date("2026-03-01T00:00:00Z") } }, 1)).toEqual([
    "2026-03-28T01:30:00.000Z",
  ]);
  expect(told({ paused: { until: null } })).toEqual([]);
});

it("has none when none comes, or when it is retired", () => {
  expect(told({ nextAt: null })).toEqual([]);
  expect(told({ retiredAt: new Date(0) })).toEqual([]);
});
