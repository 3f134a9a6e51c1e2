import { jest } from "@jest/globals";
import { ControlHints } from "../../libs/jobs/src/queue/control-hints.js";
import type { Statement } from "../../libs/jobs/src/pg/statement.js";
import { hearControl, hearWake } from "../../libs/jobs/src/store/queues/wake.js";

// What workers are told of their control rows, and how often.

const said: string[] = [];
const runner = {
  run: async (_: Statement, [, payload]: readonly unknown[] = []) => {
    said.push(payload as string);
    return [];
  },
};
const make = (enabled = true) =>
  new ControlHints(runner, "jobs", enabled, { control: (worker) => worker === 1 });
beforeEach(() => {
  said.length = 0;
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

it("the first is sent at once, those of the next 10 ms together, once for each worker", () => {
  const hints = make();
  hints.tell(7);
  expect(said).toEqual(["control 7"]);
  for (const worker of [7, 8, 8, 9]) hints.tell(worker);
  jest.advanceTimersByTime(9);
  expect(said).toHaveLength(1);
  jest.advanceTimersByTime(1);
  expect(said).toEqual(["control 7", "control 7,8,9"]);
  // It was the beginning of another 10 ms.
  hints.tell(8);
  expect(said).toHaveLength(2);
  jest.advanceTimersByTime(10);
  expect(said).toHaveLength(3);
  jest.advanceTimersByTime(1_000);
  hints.tell(8);
  expect(said).toHaveLength(4);
});

it("a worker of this process needs none, and none is sent with notify: false", () => {
  make().tell(1);
  make(false).tell(2);
  expect(said).toEqual([]);
});

it("what is unsaid at the end is said then", () => {
  const hints = make();
  hints.tell(7);
  hints.tell(8);
  hints.close();
  expect(said).toEqual(["control 7", "control 8"]);
});

it("of very many workers it tells all", () => {
  const hints = make();
  for (let worker = 2; worker < 200; worker++) hints.tell(worker);
  jest.advanceTimersByTime(10);
  expect(said).toEqual(["control 2", "control"]);
});

it("each end understands the other, and one that knows no control finds no queue in it", () => {
  expect(hearControl("control 7,8")).toEqual([7, 8]);
  expect(hearControl("control")).toBe("any");
  for (const payload of ["7", "7!", "7<"]) expect(hearControl(payload)).toBeUndefined();
  expect(hearWake("control 7,8")).toEqual({ queueId: Number.NaN, changed: false, behind: false });
});
