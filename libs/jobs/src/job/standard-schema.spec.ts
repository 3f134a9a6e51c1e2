import { z } from "zod";
import { PayloadInvalidError } from "./errors.js";
import { isSchema, validate } from "./standard-schema.js";

const schema = z.object({
  items: z.array(z.object({ at: z.string() })),
  n: z.coerce.number().default(1),
});

describe("validate", () => {
  it("gives what the schema gives", () => {
    expect(validate(schema, { items: [], n: "5" }, "k")).toEqual({ items: [], n: 5 });
  });

  it("names the paths that do not fit", () => {
    const run = (): unknown => validate(schema, { items: [{ at: "x" }, { at: 5 }] }, "k");
    expect(run).toThrow(PayloadInvalidError);
    expect(run).toThrow(/"k".*payload\.items\[1\]\.at/);
    expect(() => validate(schema, null, "k")).toThrow(/at payload\./);
  });

  it("waits for asynchronous schemas", async () => {
    const later = z.string().refine(async (text) => text === "yes");
    const standard = {
      "~standard": {
        ...later["~standard"],
        validate: async (v: unknown) => later["~standard"].validate(v),
      },
    };
    await expect(validate(standard, "yes", "k")).resolves.toBe("yes");
    await expect(validate(standard, "no", "k")).rejects.toThrow(PayloadInvalidError);
  });
});

describe("isSchema", () => {
  it("knows objects and functions with the contract", () => {
    const callable = Object.assign(() => 1, { "~standard": schema["~standard"] });
    expect([schema, callable].every(isSchema)).toBe(true);
    expect(
      [null, {}, 5, { "~standard": null }, { "~standard": { version: 2 } }].some(isSchema),
    ).toBe(false);
  });
});
