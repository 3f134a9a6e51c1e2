import { OptionsError } from "./job/errors.js";
import { parseRunWorkerOptions } from "./run-worker.options.js";

describe("the options of runWorker", () => {
  it.each([
    [{}, { health: null }],
    [{ health: undefined }, { health: null }],
    [{ health: { port: 0 } }, { health: { port: 0, host: "127.0.0.1" } }],
    [{ health: { port: 8081, host: "::" } }, { health: { port: 8081, host: "::" } }],
  ])("%j is fine", (options, parsed) => {
    expect(parseRunWorkerOptions(options)).toEqual(parsed);
  });

  const unset = "health.port: expected an integer 0..65535 (is the environment variable set?)";
  it.each([
    [null, ["options: expected an object, found null"]],
    [{ helth: { port: 1 } }, ["helth: unknown option, did you mean health?"]],
    [{ health: null }, ["health: expected an object, found null"]],
    [{ health: 8081 }, ["health: expected an object, found 8081"]],
    [{ health: {} }, [`${unset}, found undefined`]],
    [{ health: { port: undefined } }, [`${unset}, found undefined`]],
    [{ health: { port: "8081x" } }, ['health.port: expected an integer 0..65535, found "8081x"']],
    [{ health: { port: 99_999 } }, ["health.port: expected an integer 0..65535, found 99999"]],
    [{ health: { port: Number.NaN } }, ["health.port: expected an integer 0..65535, found NaN"]],
    [
      { health: { prot: 1, host: "" } },
      [
        "health.prot: unknown option, did you mean port?",
        `${unset}, found undefined`,
        'health.host: expected the name or address of an interface, found ""',
      ],
    ],
  ])("%j is not", (options, problems) => {
    let found: unknown;
    try {
      parseRunWorkerOptions(options);
    } catch (error) {
      found = error;
    }
    expect(found).toBeInstanceOf(OptionsError);
    expect((found as OptionsError).problems).toEqual(problems);
  });
});
