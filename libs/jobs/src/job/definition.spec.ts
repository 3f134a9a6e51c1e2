import type { Definition, InputOf, PayloadOf, ResultOf } from "./definition.js";
import { defineJob, isDefinition, nameOf, resolve } from "./definition.js";
import { resolvePolicy } from "./defaults.js";
import { steps } from "./backoff.js";
import { OptionsError } from "./errors.js";
import type { StandardSchemaV1 } from "./standard-schema.js";

const schema: StandardSchemaV1<{ id: string }, { id: number }> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) => ({ value: { id: Number((value as { id: string }).id) } }),
  },
};

describe("defineJob", () => {
  it("fills in queue and priority, and leaves the rest open", () => {
    const definition = defineJob("a.b");
    expect(definition).toEqual({
      kind: "a.b",
      queue: "default",
      priority: 0,
      limits: null,
      payload: null,
      attempts: null,
      backoff: null,
      timeoutMs: null,
      retryOn: null,
      buryOn: null,
    });
    expect(Object.isFrozen(definition)).toBe(true);
  });

  it("keeps what was said", () => {
    const backoff = steps("1m");
    const retryOn = [TypeError];
    const definition = defineJob("a", {
      payload: schema,
      queue: "mail",
      attempts: 6,
      backoff,
      timeout: "5m",
      priority: -3,
      retryOn,
    });
    expect(definition).toMatchObject({
      payload: schema,
      queue: "mail",
      attempts: 6,
      backoff,
      timeoutMs: 300_000,
      priority: -3,
    });
    retryOn.pop();
    expect(definition.retryOn).toEqual([TypeError]);
  });

  it("carries its types", () => {
    const typed = defineJob("a", { payload: schema });
    const input: InputOf<typeof typed> = { id: "1" };
    const output: PayloadOf<typeof typed> = { id: 1 };
    const plain = defineJob<{ n: number }, boolean>("b", { attempts: 2 });
    const payload: PayloadOf<typeof plain> = { n: 1 };
    const result: ResultOf<typeof plain> = true;
    const withResult = defineJob<typeof schema, string>("c", { payload: schema });
    const text: ResultOf<typeof withResult> = "x";
    // @ts-expect-error the input has a string
    const wrong: InputOf<typeof typed> = { id: 1 };
    const all: Definition[] = [typed, plain, withResult];
    expect([input, output, payload, result, text, wrong, all]).toHaveLength(7);
  });

  it("tells all problems at once, with the option meant", () => {
    // @ts-expect-error an unknown option
    const unknown = (): unknown => defineJob("a", { atempts: 3 });
    expect(unknown).toThrow(/job "a".*\n.*atempts: unknown option, did you mean attempts\?/);
    const options = {
      atempts: 3,
      maxAttempts: 1,
      zzz: 1,
      timeout: "5",
      priority: 101,
      queue: "",
      attempts: 0,
      backoff: 5,
      retryOn: [5],
      buryOn: TypeError,
      payload: {},
    };
    let caught: unknown;
    try {
      defineJob("\n", options as never);
    } catch (error) {
      caught = error;
    }
    expect(caught).toBeInstanceOf(OptionsError);
    expect((caught as OptionsError).problems).toHaveLength(12);
  });

  it.each(["", "x".repeat(65), "a\0", "a\n", "\ud800", null, 5])("refuses kind %p", (kind) => {
    expect(() => defineJob(kind as string)).toThrow(OptionsError);
  });

  it.each(["constructor", "__proto__", "ü", "x".repeat(64), "😀".repeat(64)])(
    "takes kind %p",
    (kind) => {
      expect(defineJob(kind, { queue: kind }).kind).toBe(kind);
    },
  );
});

describe("resolve and nameOf", () => {
  it("take definitions and strings", () => {
    const definition = defineJob("a", { queue: "q" });
    expect(resolve(definition)).toBe(definition);
    expect(resolve("a")).toMatchObject({ kind: "a", queue: "default" });
    expect([nameOf(definition), nameOf("b")]).toEqual(["a", "b"]);
    expect(isDefinition({ kind: "a" })).toBe(false);
    expect(() => resolve({ kind: "a" } as never)).toThrow(OptionsError);
  });
});

describe("resolvePolicy", () => {
  it("takes each option from the first level that says it", () => {
    const definition = defineJob("a", { attempts: 7 });
    const policy = resolvePolicy({ timeoutMs: 1, attempts: null }, definition, {
      attempts: 9,
      retryOn: [TypeError],
    });
    expect(policy).toMatchObject({ attempts: 7, timeoutMs: 1, retryOn: [TypeError], buryOn: null });
    expect(resolvePolicy()).toMatchObject({ attempts: 5, timeoutMs: 300_000, retryOn: null });
  });
});
