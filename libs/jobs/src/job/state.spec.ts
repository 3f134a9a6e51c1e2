import { JOB_EVENTS } from "./event.js";
import { FINISHED_CODES, finishedState, JOB_STATES } from "./state.js";

describe("states and events", () => {
  it("store finished states as numbers and read them back", () => {
    for (const [state, code] of Object.entries(FINISHED_CODES))
      expect(finishedState(code)).toBe(state);
    for (const code of [0, 4, -1, 1.5, NaN]) expect(() => finishedState(code)).toThrow(RangeError);
  });

  it("have each name once", () => {
    expect(new Set(JOB_STATES).size).toBe(6);
    expect(new Set(JOB_EVENTS).size).toBe(15);
  });
});
