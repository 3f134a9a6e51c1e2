import { z } from "zod";
import { invoke } from "../../libs/jobs/src/handler/invoke.js";
import type { Handler } from "../../libs/jobs/src/handler/handler.js";
import { BUILT_IN_POLICY } from "../../libs/jobs/src/job/defaults.js";
import {
  type Definition,
  type JobContext,
  PayloadCheckFailedError,
  PayloadInvalidError,
  defineJob,
} from "nestjs-pg-jobs";

const context = { id: "1-1" } as JobContext;

const handlerOf = (run: Handler["run"], definition: Definition = defineJob("any")): Handler => ({
  definition,
  concurrency: null,
  schedule: null,
  limits: null,
  batch: null,
  subscription: null,
  policy: BUILT_IN_POLICY,
  run,
  name: "Any.run",
});

describe("invoke", () => {
  it("hands over the payload and the context, and answers with the value", async () => {
    const result = await invoke(
      handlerOf((payload, job) => ({ payload, job })),
      '{"a":1}',
      context,
    );
    expect(result).toEqual({ type: "returned", value: { payload: { a: 1 }, job: context } });
  });

  it("answers with what a promise becomes", async () => {
    expect(
      await invoke(
        handlerOf(async () => 1),
        "null",
        context,
      ),
    ).toEqual({
      type: "returned",
      value: 1,
    });
  });

  it.each([null, undefined, "text", 0, new Error("x")])(
    "never rejects: %p thrown",
    async (error) => {
      for (const run of [
        () => {
          throw error;
        },
        // oxlint-disable-next-line prefer-promise-reject-errors -- that is the point
        () => Promise.reject(error),
      ])
        expect(await invoke(handlerOf(run), "{}", context)).toEqual({ type: "threw", error });
    },
  );

  it("runs the schema, also an asynchronous one, and hands over what it made", async () => {
    const schema = z.string().transform(async (text) => text.length);
    const definition = defineJob("any", { payload: schema }) as Definition;
    expect(
      await invoke(
        handlerOf((n) => n, definition),
        '"four"',
        context,
      ),
    ).toEqual({
      type: "returned",
      value: 4,
    });
  });

  it.each([
    ["a payload that does not fit", z.number(), PayloadInvalidError],
    [
      "a schema that throws",
      z.string().transform(() => {
        throw new TypeError("broken");
      }),
      PayloadCheckFailedError,
    ],
  ])("%s is thrown, and the body does not run", async (_what, payload, error) => {
    let ran = false;
    const definition = defineJob("any", { payload }) as Definition;
    const result = await invoke(
      handlerOf(() => (ran = true), definition),
      '"text"',
      context,
    );
    expect(result).toEqual({ type: "threw", error: expect.any(error) });
    expect(ran).toBe(false);
  });

  it("text that is no JSON is thrown: a payload column that somebody has changed", async () => {
    expect(
      await invoke(
        handlerOf(() => 1),
        "{",
        context,
      ),
    ).toMatchObject({ type: "threw" });
  });
});
