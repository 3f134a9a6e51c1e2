import { NotJsonError } from "./errors.js";
import { jsonText, MAX_JSON_DEPTH, resultJson, safeText } from "./json.js";

class Address {
  #secret = 1;
  constructor(readonly city: string) {}
  get secret(): number {
    return this.#secret;
  }
}
const nest = (depth: number): unknown => {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = i % 2 ? [value] : { a: value };
  return value;
};
const circle: Record<string, unknown> = {};
circle.self = circle;
const sparse: unknown[] = [1];
sparse[3] = 2;
let wide: unknown = [1];
for (let i = 0; i < 60; i++) wide = [wide, wide];

const stored = (value: unknown) => resultJson(value, 1_048_576);

describe("jsonText", () => {
  it.each([
    [undefined, "{}"],
    [null, "null"],
    ["x", '"x"'],
    [{ a: undefined, b: 1 }, '{"b":1}'],
    [[1, "a", null, true, { b: [] }], '[1,"a",null,true,{"b":[]}]'],
    [Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    [new Address("Oslo"), '{"city":"Oslo"}'],
    [JSON.parse('{"__proto__":{"x":1},"constructor":2}'), '{"__proto__":{"x":1},"constructor":2}'],
    ["\\u0000 \\ud800 spelled out", '"\\\\u0000 \\\\ud800 spelled out"'],
    ["😀", '"😀"'],
  ])("takes %p", (value, text) => {
    expect(jsonText(value)).toBe(text);
  });

  it("takes a nesting of the limit, and no more", () => {
    expect(jsonText(nest(MAX_JSON_DEPTH))).toContain("1");
    expect(() => jsonText(nest(MAX_JSON_DEPTH + 1))).toThrow(/deeper than 100/);
  });

  it.each([
    ["payload", NaN],
    ["payload.a", { a: Infinity }],
    ["payload.items[1].at", { items: [{}, { at: new Date() }] }],
    ["payload[0]", [undefined]],
    ["payload[1]", sparse],
    ["payload.n", { n: 1n }],
    ["payload.f", { f: () => 1 }],
    ["payload.s", { s: Symbol("x") }],
    ["payload[Symbol(x)]", { [Symbol("x")]: 1 }],
    ["payload.m", { m: new Map() }],
    ["payload.m", { m: new Set() }],
    ["payload.b", { b: Buffer.from("x") }],
    ["payload.b", { b: new Uint8Array(2) }],
    ["payload.b", { b: new ArrayBuffer(2) }],
    ["payload.p", { p: Promise.resolve() }],
    ["payload.e", { e: new Error("x") }],
    ["payload.r", { r: /x/ }],
    ["payload.u", { u: new URL("http://x") }],
    ["payload.n", { n: new Number(1) }],
    ["payload.t", { t: { toJSON: 1, a: () => 1 } }],
    [
      "payload.t",
      {
        t: new (class {
          toJSON() {
            return 1;
          }
        })(),
      },
    ],
    ["payload.a", { a: Object.assign([], { toJSON: () => 1 }) }],
    ["payload.z", { z: "a\0b" }],
    ["payload.z", { z: "\ud800" }],
    ['payload["a\\u0000"]', { "a\0": 1 }],
    ['payload["odd key"].x', { "odd key": { x: NaN } }],
    [
      "payload",
      {
        get boom() {
          throw new Error("secret");
        },
      },
    ],
    ["payload", wide],
  ])("refuses what stands at %s", (path, value) => {
    let caught: unknown;
    try {
      jsonText(value);
    } catch (error) {
      caught = error;
    }
    expect(caught).toBeInstanceOf(NotJsonError);
    expect(caught).toMatchObject({ code: "PAYLOAD_NOT_JSON" });
    expect((caught as NotJsonError).path.startsWith(path)).toBe(true);
    expect((caught as NotJsonError).message).not.toContain("secret");
  });

  it("refuses a circle and a revoked proxy", () => {
    expect(() => jsonText(circle)).toThrow(/circular/);
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(() => jsonText(proxy)).toThrow(NotJsonError);
  });

  it("refuses BigInt even when somebody taught it toJSON", () => {
    const prototype = BigInt.prototype as { toJSON?: () => string };
    prototype.toJSON = () => "1";
    try {
      expect(() => jsonText({ n: 1n })).toThrow(NotJsonError);
    } finally {
      delete prototype.toJSON;
    }
  });

  it("gives back what was sent, for random JSON", () => {
    for (let i = 0; i < 500; i++) {
      const value = randomJson(4);
      expect(JSON.parse(jsonText(value))).toEqual(value);
    }
  });
});

describe("resultJson", () => {
  it("never throws", () => {
    expect(stored(undefined)).toEqual({ text: null });
    expect(stored({ a: 1 })).toEqual({ text: '{"a":1}' });
    expect(stored({ seen: new Map() })).toEqual({
      problem: expect.stringMatching(/^Expected JSON at result\.seen, found an instance of Map/),
    });
    for (const value of [circle, wide, { toJSON: () => 1n }])
      expect(stored(value)).toEqual({ problem: expect.any(String) });
  });

  it("takes what toJSON gives, as JSON.stringify would", () => {
    const at = new Date(0);
    const row = { id: 7, at, tags: [{ url: new URL("http://a.example/") }], gone: undefined };
    expect(stored(row).text).toBe(JSON.stringify(row));
    expect(stored({ at, big: 1n })).toEqual({ problem: expect.stringContaining("a BigInt") });
    expect(stored(new Date(Number.NaN)).text).toBe("null");
  });
});

describe("safeText", () => {
  it("replaces what PostgreSQL refuses and cuts what is too long", () => {
    expect(safeText("a\0b\ud800c", 10)).toBe("a\uFFFDb\uFFFDc");
    expect(safeText("abcdef", 4)).toBe("abc…");
    expect(safeText("ab😀😀", 4)).toBe("ab…");
    expect(safeText("😀", 2)).toBe("😀");
  });
});

function randomJson(depth: number): unknown {
  const pick = Math.floor(Math.random() * (depth > 0 ? 6 : 4));
  const some = <T>(make: () => T): T[] => Array.from({ length: Math.random() * 4 }, make);
  if (pick === 0) return Math.random() * 10 ** Math.floor(Math.random() * 300);
  if (pick === 1)
    return some(() => String.fromCodePoint(1 + Math.floor(Math.random() * 0xd7fe))).join("");
  if (pick === 2) return Math.random() < 0.5;
  if (pick === 3) return null;
  if (pick === 4) return some(() => randomJson(depth - 1));
  return Object.fromEntries(some(() => [`k${Math.random()}`, randomJson(depth - 1)]));
}
