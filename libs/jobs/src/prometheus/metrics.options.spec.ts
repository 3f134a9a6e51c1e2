import { Registry, register } from "prom-client";
import { OptionsError } from "../job/errors.js";
import { parseMetricsOptions } from "./metrics.options.js";

const problemsOf = (options: unknown): readonly string[] => {
  try {
    parseMetricsOptions(options);
  } catch (error) {
    if (error instanceof OptionsError) return error.problems;
    throw error;
  }
  return [];
};

it("has defaults", () => {
  expect(parseMetricsOptions({})).toEqual({
    registry: register,
    prefix: "jobs_",
    schemaLabel: undefined,
    database: true,
    maxLabels: 200,
  });
});

it("takes what it is given", () => {
  const registry = new Registry();
  const options = {
    registry,
    prefix: "shop_jobs_",
    schemaLabel: "shop",
    database: false,
    maxLabels: 10,
  };
  expect(parseMetricsOptions(options)).toEqual(options);
});

it("says all that is wrong at once", () => {
  const wrong = { prefx: "a", registry: {}, prefix: "1-", schemaLabel: "", database: 1 };
  expect(problemsOf({ ...wrong, maxLabels: 0 })).toEqual([
    "prefx: unknown option, did you mean prefix?",
    "registry: expected a Registry of prom-client, found an object",
    'prefix: expected letters, digits and _, of which no digit comes first, found "1-"',
    expect.stringMatching(/^schemaLabel: expected 1\.\.64 characters/),
    "database: expected true or false, found 1",
    "maxLabels: expected an integer 1..10000, found 0",
  ]);
  expect(problemsOf(null)).toEqual(["options: expected an object, found null"]);
});
