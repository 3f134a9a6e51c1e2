import { JobsError } from "./errors.js";
import { reportError } from "./error-report.js";

const hostile = new Proxy(
  {},
  {
    get() {
      throw new Error("no");
    },
    getPrototypeOf() {
      throw new Error("no");
    },
    ownKeys() {
      throw new Error("no");
    },
  },
);
const getters = {
  get message(): string {
    throw new Error("no");
  },
  stack: "at somewhere",
};
const revoked = Proxy.revocable({}, {});
revoked.revoke();
const circle = new Error("round");
circle.cause = new Error("and round", { cause: circle });

describe("reportError", () => {
  it("tells name, message, stack, code and cause", () => {
    const error = Object.assign(new TypeError("bad", { cause: "dns" }), { code: "E1" });
    expect(reportError(error)).toEqual({
      name: "TypeError",
      message: "bad",
      stack: expect.stringContaining("error-report.spec"),
      code: "E1",
      cause: { name: "NonError", message: "dns" },
    });
  });

  it("names an error by its class when it has no name of its own", () => {
    class MailboxGone extends Error {}
    expect(reportError(new MailboxGone("x")).name).toBe("MailboxGone");
    expect(reportError(new JobsError("TIMEOUT", "x"))).toMatchObject({
      name: "JobsError",
      code: "TIMEOUT",
    });
    expect(reportError({ message: "plain" })).toEqual({ name: "Error", message: "plain" });
    for (const name of ["constructor", "__proto__"]) {
      expect(reportError(Object.assign(new Error("x"), { name })).name).toBe(name);
    }
  });

  it.each([
    null,
    undefined,
    "boom",
    42,
    5n,
    Symbol("s"),
    () => 1,
    {},
    [],
    { message: { toString: null } },
    Object.create(null),
    hostile,
    getters,
    revoked.proxy,
    circle,
    Object.assign(new Error("x"), { name: 5, stack: 5, cause: hostile, errors: "no" }),
    Object.assign(new Error("x"), { errors: revoked.proxy, constructor: hostile }),
    new AggregateError([null, circle, hostile], "many"),
  ])("survives %#", (thrown) => {
    const report = reportError(thrown);
    expect(typeof report.name).toBe("string");
    expect(typeof report.message).toBe("string");
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
  });

  it("ends circles, long chains and wide trees", () => {
    expect(reportError(circle).cause?.cause).toBeUndefined();
    let chain = new Error("0");
    for (let i = 1; i < 50; i++) chain = new Error(String(i), { cause: chain });
    let depth = 1;
    for (let at = reportError(chain); at.cause; at = at.cause) depth++;
    expect(depth).toBe(10);
    let tree: Error = new Error("leaf");
    for (let i = 0; i < 8; i++) tree = new AggregateError(Array(20).fill(tree), "t");
    expect(JSON.stringify(reportError(tree)).match(/"message"/g)!.length).toBeLessThanOrEqual(32);
    const flat = new AggregateError(
      Array.from({ length: 50 }, (_, i) => new Error(String(i))),
      "t",
    );
    expect(reportError(flat).errors).toHaveLength(10);
  });

  it("cuts what is huge, keeps the frames, and replaces what jsonb refuses", () => {
    const report = reportError(new Error("x\0\ud800".repeat(1e6)));
    expect(report.message.length).toBeGreaterThan(9_990);
    expect(report.message.length).toBeLessThanOrEqual(10_000);
    expect(report.stack!.length).toBeLessThanOrEqual(20_000);
    expect(report.stack).toContain("error-report.spec");
    expect(JSON.stringify(report)).not.toMatch(/\\u0000|\\ud/);
  });
});
