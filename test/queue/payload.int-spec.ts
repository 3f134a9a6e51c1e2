import type { JobQueue } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";

// What a job carries comes back as it was sent, and names are only names.

let bench: Bench;
let jobs: JobQueue;
beforeAll(async () => {
  bench = await Bench.open();
  jobs = await bench.producer();
});
afterAll(async () => await bench.close());

const parse = (text: string): unknown => JSON.parse(text);

describe("a payload", () => {
  it.each<[string, unknown]>([
    ["null", null],
    ["text", ""],
    ["a number", 0],
    ["false", false],
    ["a list", []],
    [
      "great and small numbers",
      [1e308, 5e-324, -1.5e-7, 2 ** 53, 0.1 + 0.2, 1e21, 123456789012345680000],
    ],
    [
      "keys named as in every object",
      parse('{"__proto__":{"a":1},"constructor":{"prototype":1},"toString":2}'),
    ],
    [
      "empty and odd keys",
      { "": 1, " ": { "": [] }, 'quo"te': 2, "back\\slash": 3, "new\nline": 4, "😀": 5 },
    ],
    [
      "escapes that are spelled out",
      ["\\u0000", "\\ud800", "\\", '"', "\u2028\u2029", "\u0001\u001f\u007f"],
    ],
    ["text of all planes", "é ß 漢 🇳🇴 👩‍👩‍👧‍👦 \ufeff \uffff \u{10ffff}"],
    [
      "a nesting of the limit",
      Array.from({ length: 99 }).reduce<unknown>((inner) => ({ a: inner }), []),
    ],
    ["what looks like SQL", { $1: "'; drop table job; --", "\\'": "$$;$tag$" }],
    [
      "the names of our own columns",
      { id: 1, lane: 2, kind: "x", payload: { payload: 1 }, key: null, delay: 9 },
    ],
  ])("comes back: %s", async (_, payload) => {
    const client = await bench.client();
    await client.query("begin");
    const made = [
      await jobs.enqueue("work", payload),
      await jobs.enqueue("work", payload, { key: String(Math.random()) }),
      (await jobs.enqueueMany("work", [{ payload, priority: 3 }]))[0]!,
      await jobs.in(client).enqueue("work", payload),
    ];
    await client.query("commit");
    client.release();
    for (const { id } of made) {
      const seen = (await jobs.get(id))!.payload;
      expect(JSON.stringify(sorted(seen))).toBe(JSON.stringify(sorted(payload)));
    }
  });

  it("is {} when there is none, and -0 is 0, as in JSON", async () => {
    expect((await jobs.get((await jobs.enqueue("work")).id))!.payload).toEqual({});
    expect((await jobs.get((await jobs.enqueue("work", [-0])).id))!.payload).toEqual([0]);
  });

  it("drops what is undefined", async () => {
    const { id } = await jobs.enqueue("work", { a: undefined, b: { c: undefined } });
    expect((await jobs.get(id))!.payload).toEqual({ b: {} });
  });

  it("comes back, whatever it is", async () => {
    const payloads = Array.from({ length: 1_000 }, () => random(5));
    const made = await jobs.enqueueMany(
      "work",
      payloads.map((payload) => ({ payload })),
    );
    const rows = await bench.sql<{ id: string; text: string }>(
      "select id, payload::text as text from jobs.job_status where id = any($1)",
      [made.map(({ id }) => id)],
    );
    const seen = new Map(rows.map(({ id, text }) => [id, parse(text)]));
    for (const [n, { id }] of made.entries())
      expect(JSON.stringify(sorted(seen.get(id)))).toBe(JSON.stringify(sorted(payloads[n])));
  });
});

describe("a name", () => {
  const NAMES = [
    "'; drop table job; --",
    'quo"te',
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "$1",
    "%s %I",
    "a,b}{",
    "null",
    "NULL",
    "0",
    " ",
    "back\\slash",
    "漢".repeat(64),
    "😀".repeat(64),
    "a.b:c/d#e?f=g&h",
  ];

  it.each(NAMES)("is only a name: %s", async (name) => {
    const made = await jobs.enqueue(name, { n: 1 }, { queue: name, key: name });
    expect(made.deduplicated).toBe(false);
    const again = await jobs.enqueueMany(name, [{}, {}], { queue: name, key: name });
    expect(again.map(({ id }) => id)).toEqual([made.id, made.id]);
    const view = "select kind, queue, key, state from jobs.job_status where id = $1";
    const expected = { kind: name, queue: name, key: name, state: "queued" };
    expect(await bench.sql(view, [made.id])).toEqual([expected]);
    expect(await jobs.get(made.id)).toMatchObject({ ...expected, payload: { n: 1 } });
  });
});

/** Keys in one order: jsonb keeps another. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, one]) => [key, sorted(one)]);
}

function random(depth: number): unknown {
  const pick = Math.floor(Math.random() * (depth > 0 ? 8 : 6));
  const some = <T>(make: () => T): T[] => Array.from({ length: Math.random() * 5 }, make);
  if (pick === 0) return (Math.random() - 0.5) * 10 ** Math.floor(Math.random() * 616 - 308);
  if (pick === 1) return Math.floor(Math.random() * 2 ** 53);
  if (pick === 2) return text();
  if (pick === 3) return Math.random() < 0.5;
  if (pick === 4) return null;
  if (pick === 5) return ["__proto__", "", "\\u0000", "1e999"][Math.floor(Math.random() * 4)];
  if (pick === 6) return some(() => random(depth - 1));
  return parse(
    `{${some(() => `${JSON.stringify(Math.random() < 0.1 ? "__proto__" : text())}:${JSON.stringify(random(depth - 1))}`).join(",")}}`,
  );
}

function text(): string {
  const point = () => {
    const code = 1 + Math.floor(Math.random() ** 4 * 0x10fffe);
    return code >= 0xd800 && code <= 0xdfff ? 65 : code;
  };
  return String.fromCodePoint(...Array.from({ length: Math.random() * 8 }, point));
}
