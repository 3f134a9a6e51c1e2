import { Failures, networkOf } from "../../libs/jobs-admin/src/auth/failures.js";
import { ADAPTERS, AdminApp, said } from "../support/admin-app.js";
import { Bench } from "../support/harness.js";

// Wrong credentials, counted by where they come from.

describe("the count", () => {
  let now: number;
  let failures: Failures;
  beforeEach(() => {
    now = 5_000;
    failures = new Failures(() => now);
  });
  const add = (address: string, times = 1) =>
    Array.from({ length: times }, () => failures.add(address));

  it("ends after sixty, and goes on with one a second", () => {
    expect(add("10.0.0.1", 59)).toEqual(
      Array.from({ length: 59 }, () => ({ wait: 0, last: false })),
    );
    expect(add("10.0.0.1", 3)).toEqual([
      { wait: 0, last: true },
      { wait: 1, last: false },
      { wait: 1, last: false },
    ]);
    expect(add("10.0.0.2")).toEqual([{ wait: 0, last: false }]);
    now += 999;
    expect(add("10.0.0.1")).toEqual([{ wait: 1, last: false }]);
    now += 2;
    expect(add("10.0.0.1", 2)).toEqual([
      { wait: 0, last: true },
      { wait: 1, last: false },
    ]);
    now += 3_600_000;
    expect(add("10.0.0.1", 60).every(({ wait }) => wait === 0)).toBe(true);
    expect(add("10.0.0.1")[0]!.wait).toBe(1);
  });

  it("remembers so many addresses and no more, those that were silent for longest go", () => {
    add("10.0.0.1", 61);
    for (let index = 0; index < 9_999; index++) add(`10.1.${index >> 8}.${index & 255}`);
    expect(failures.size).toBe(10_000);
    expect(add("10.0.0.1")[0]!.wait).toBe(1);
    for (let index = 0; index < 50_000; index++)
      add(`10.${2 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`);
    expect(failures.size).toBe(10_000);
    expect(add("10.0.0.1")[0]!.wait).toBe(0);
  });
});

it.each([
  ["10.0.0.1", "10.0.0.1"],
  ["::ffff:10.0.0.1", "10.0.0.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
  ["2001:0db8:0001:0002::9", "2001:db8:1:2"],
  ["2001:db8::1", "2001:db8:0:0"],
  ["::1", "0:0:0:0"],
  ["fe80::1%eth0", "fe80:0:0:0"],
  ["unknown", "unknown"],
])("the network of %s is %s", (address, network) => {
  expect(networkOf(address)).toBe(network);
});

describe.each(ADAPTERS)("on %s", (adapter) => {
  it("too many are told to wait, and who has the right one passes all the same", async () => {
    const bench = await Bench.open();
    const admin = await AdminApp.open(bench, adapter);
    const wrong = { authorization: "Bearer of-bad-news-from-afar" };
    const send = async () => await admin.get("workers", { as: null, headers: wrong });
    const answers = [];
    for (let count = 0; count < 80; count++) answers.push(await send());
    const limited = answers.filter(({ status }) => status === 429);
    expect(limited.length).toBeGreaterThan(5);
    expect(said(answers[0]!)).toEqual([403, "FORBIDDEN"]);
    expect(said(limited[0]!)).toEqual([429, "TOO_MANY_FAILURES"]);
    expect(limited[0]!.headers.get("retry-after")).toBe("1");
    // Who sends none has guessed nothing.
    expect((await admin.get("workers", { as: null })).status).toBe(401);
    expect((await admin.get("workers", { as: "viewer" })).status).toBe(200);
    await admin.close();
    await bench.close();
  });
});
