import { BadJobIdError } from "./errors.js";
import { formatJobId, parseJobId } from "./job-id.js";

describe("job ids", () => {
  it.each([
    [7, "1048577"],
    [0, "0"],
    [2_147_483_647, "9223372036854775807"],
  ])("round-trip %p, %p", (queueId, number) => {
    expect(parseJobId(formatJobId(queueId, number))).toEqual({ queueId, number });
  });

  it.each([
    "",
    "7",
    "7-",
    "-7",
    "07-1",
    "7-01",
    "+7-1",
    "7-1 ",
    " 7-1",
    "7-1\n",
    "7-1-1",
    "7--1",
    "7-1.0",
    "1e3-1",
    "2147483648-1",
    "9999999999-1",
    "7-9223372036854775808",
    "7-99999999999999999999",
    "x".repeat(1e5),
    "٧-١",
    null,
    undefined,
    7,
    {},
  ])("refuse %p", (text) => {
    expect(() => parseJobId(text as string)).toThrow(BadJobIdError);
  });
});
