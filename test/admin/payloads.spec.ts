import { bury, defineJob } from "nestjs-pg-jobs";
import { z } from "zod";
import { Redaction } from "../../libs/jobs-admin/src/payloads/redaction.js";
import { ADAPTERS, AdminApp, TOKENS, said } from "../support/admin-app.js";
import { handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// Who sees what of payloads and results.

const R = "[redacted]";

describe("the paths", () => {
  it.each<[string[], unknown, unknown]>([
    [
      ["payload.card.number"],
      { card: { number: 1, name: "a" } },
      { card: { number: R, name: "a" } },
    ],
    [
      ["payload.card.number"],
      { card: [{ number: 1 }, { number: 2 }] },
      { card: [{ number: R }, { number: R }] },
    ],
    [["payload.card.number"], { card: 7, number: 1 }, { card: 7, number: 1 }],
    [
      ["*.password"],
      { password: "x", inner: { password: "y" } },
      { password: R, inner: { password: "y" } },
    ],
    [
      ["payload.**.password"],
      { password: "x", a: [{ b: { password: { c: 1 } } }] },
      { password: R, a: [{ b: { password: R } }] },
    ],
    [
      ["payload.*.secret"],
      { a: { secret: 1 }, b: [{ secret: 2 }] },
      { a: { secret: R }, b: [{ secret: R }] },
    ],
    [["payload.list.*"], { list: [1, { a: 1 }] }, { list: [R, R] }],
    [["payload.list.1"], { list: ["a", "b"] }, { list: ["a", R] }],
    [["payload"], { a: 1 }, R],
    [["**"], { a: { b: 1 } }, R],
    [["payload.**"], { a: { b: 1 }, c: null }, { a: R, c: R }],
    [["result.a"], { a: 1 }, { a: 1 }],
    [["payload.a"], null, null],
    [["payload.a"], [{ a: 1 }], [{ a: R }]],
    [["payload.a.b", "payload.a"], { a: { b: 1 } }, { a: R }],
    [[], { a: 1 }, { a: 1 }],
  ])("%j of %j show %j", (paths, value, shown) => {
    const before = structuredClone(value);
    expect(new Redaction(paths).of("payload", value)).toEqual(shown);
    expect(value).toEqual(before);
  });

  it.each<[string[], string, string | undefined]>([
    [["payload.card.number"], "card.number", "payload.card.number"],
    [["payload.card.number"], "card.number.0", "payload.card.number"],
    [["payload.card.number"], "card.0.number", "payload.card.0.number"],
    [["payload.card.number"], "card.holder", undefined],
    [["payload.card.number"], "card", undefined],
    [["payload.list.1"], "list.1", "payload.list.1"],
    [["payload.list.1"], "list.0", undefined],
    [["payload.**.password"], "a.0.b.password", "payload.a.0.b.password"],
    [["*.password"], "password", "payload.password"],
    [["result.password"], "password", undefined],
    [["payload"], "a", "payload"],
    [[], "a", undefined],
    // As PostgreSQL counts.
    [["payload.cards.number"], "cards.+0.number", "payload.cards.+0.number"],
    [["payload.cards.number"], "cards. 0.number", "payload.cards. 0.number"],
    [["payload.cards.number"], "cards.-1.number", "payload.cards.-1.number"],
    [["payload.list.1"], "list.+1", "payload.list.+1"],
    [["payload.list.1"], "list.-1", "payload.list.-1"],
    [["payload.list.1.a"], "list.-1.b", undefined],
  ])("%j hide on the way to %s: %s", (paths, path, place) => {
    expect(new Redaction(paths).hiddenOn(`payload.${path}`)).toBe(place);
  });

  it("long paths of numbers are followed at once", () => {
    const path = Array.from({ length: 100 }, () => "0").join(".");
    const from = performance.now();
    expect(new Redaction(["payload.card.number"]).hiddenOn(`payload.${path}`)).toBeUndefined();
    expect(new Redaction(["payload.**.x"]).hiddenOn(`payload.${path}`)).toBeUndefined();
    expect(performance.now() - from).toBeLessThan(100);
  });

  it("find what was shown and not known", () => {
    const redaction = new Redaction(["payload.cards.number"]);
    const at = (payload: unknown) => redaction.placeholderIn("payload", payload);
    expect(at({ cards: [{ number: "1" }, { number: R }] })).toBe("payload.cards[1].number");
    expect(at({ cards: [{ number: "1" }], note: R })).toBeUndefined();
  });

  it("are followed at once, however deep and wide the payload is", () => {
    let deep: unknown = { password: 1 };
    for (let depth = 0; depth < 90; depth++) deep = [deep, { deep: depth }];
    const wide = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`n${n}`, { a: n }]));
    const paths = Array.from({ length: 50 }, (_, n) => `**.**.x${n}.**.password`);
    const before = performance.now();
    new Redaction([...paths, "**.password"]).of("payload", { deep, wide });
    expect(performance.now() - before).toBeLessThan(5_000);
  });
});

const Charge = defineJob("charge", {
  payload: z.object({ card: z.object({ number: z.string(), holder: z.string() }) }),
});

describe.each(ADAPTERS)("on %s", (adapter) => {
  let bench: Bench;
  let admin: AdminApp;
  let id: string;
  const card = { number: "4111 1111", holder: "Ada" };
  beforeAll(async () => {
    bench = await Bench.open();
    admin = await AdminApp.open(bench, adapter, {
      tokens: TOKENS,
      redact: ["payload.card.number", "result.token"],
    });
    const charge = handler(Charge, () => bury("declined"));
    const gives = handler<string>("gives", () => ({ token: "t-1", ok: true }));
    await bench.worker([charge, gives]);
    id = (await admin.jobs.enqueue(Charge, { card })).id;
    await until(async () => (await bench.state(id)) === "dead", { what: "it is dead" });
  });
  afterAll(async () => {
    await admin.close();
    await bench.close();
  });

  it("operators see what is not redacted, viewers see neither payload nor result", async () => {
    const seen = await admin.get(`jobs/${id}`, { as: "operator" });
    expect(seen.body.payload).toEqual({ card: { number: "[redacted]", holder: "Ada" } });
    expect(seen.body).not.toHaveProperty("withheld");
    const less = await admin.get(`jobs/${id}`, { as: "viewer" });
    expect(less.body).not.toHaveProperty("payload");
    expect(less.body).not.toHaveProperty("result");
    expect(less.body.withheld).toEqual({ members: ["payload", "result"], role: "operator" });
    expect(JSON.stringify([seen.body, less.body])).not.toMatch(/4111/);
  });

  it("nobody finds by a payload what he is not shown", async () => {
    const search = async (as: "viewer" | "operator" | "admin", match: string) => {
      const lists = ["jobs", "dead-letters"].map((list) =>
        admin.get(`${list}?payload=${encodeURIComponent(match)}`, { as }),
      );
      const body = { action: "requeue", payload: match };
      const answers = await Promise.all([...lists, admin.post("bulk/preview", { as, body })]);
      return answers.map(({ status, body: { code, items, count } }) => [
        status,
        code ?? (items as unknown as object[] | undefined)?.length ?? count,
      ]);
    };
    const all = (answer: unknown) => [answer, answer, answer];
    expect(await search("operator", "card.holder:Ada")).toEqual(all([200, 1]));
    expect(await search("operator", "card.holder:Bob")).toEqual(all([200, 0]));
    for (const hidden of ["card.number:4111 1111", "card.0.number:4111 1111", "card.number:1"])
      expect(await search("admin", hidden)).toEqual(all([400, "PAYLOAD_REDACTED"]));
    expect(await search("viewer", "card.holder:Ada")).toEqual(all([403, "ROLE_TOO_WEAK"]));
    expect((await search("operator", "card.holder"))[0]).toEqual([400, "QUERY_INVALID"]);
  });

  it("nobody bounds or pauses by what he is not shown", async () => {
    const place = "card.number";
    const patch = async (body: object) =>
      said(await admin.call("patch", "queues/default", { body: { kind: "charge", ...body } }));
    const refused = [400, "PAYLOAD_REDACTED"];
    expect(await patch({ limit: { max: 9, key: place }, rate: null })).toEqual(refused);
    expect(await patch({ limit: null, rate: { max: 9, per: "1m", key: place } })).toEqual(refused);
    const pause = { kind: "charge", key: "4111", keyPath: place };
    expect(said(await admin.post("queues/default/pause", { body: pause }))).toEqual(refused);
    expect(await patch({ limit: { max: 9, key: "card.holder" }, rate: null })).toEqual([
      200,
      undefined,
    ]);
    expect(await patch({ limit: null, rate: null })).toEqual([200, undefined]);
  });

  it("nobody bounds by one of several places that he is not shown", async () => {
    const hidden = { max: 1, key: "card.number" };
    const patch = async (limit: unknown, rate: unknown) =>
      said(await admin.call("patch", "queues/default", { body: { kind: "charge", limit, rate } }));
    expect(await patch([hidden], null)).toEqual([400, "PAYLOAD_REDACTED"]);
    expect(await patch([{ max: 1 }, hidden], null)).toEqual([400, "PAYLOAD_REDACTED"]);
    expect(await patch(null, [{ ...hidden, per: "1m" }])).toEqual([400, "PAYLOAD_REDACTED"]);
  });

  it("nobody pauses, resumes or sees a key that was read where nothing is shown", async () => {
    const part = { kind: "charge", key: "4111 1111" };
    const at = { kind: "charge" };
    await admin.jobs.queues.limit("default", { ...at, limit: { max: 9, key: "card.number" } });
    await admin.jobs.queues.pause("default", part);
    const refused = [400, "PAYLOAD_REDACTED"];
    for (const keyPath of [undefined, "card.number"]) {
      const body = { ...part, keyPath };
      expect(said(await admin.post("queues/default/pause", { body }))).toEqual(refused);
      const query = `kind=charge&key=4111%201111${keyPath ? `&keyPath=${keyPath}` : ""}`;
      expect(said(await admin.delete(`queues/default/pause?${query}`))).toEqual(refused);
    }
    const paused = async (as: keyof typeof TOKENS) => {
      const { limits } = (await admin.get("queues/default", { as })).body;
      return (limits as { paused: { key: string }[] }[]).flatMap((one) => one.paused);
    };
    expect(await paused("admin")).toMatchObject([{ key: R }]);
    const patch = { ...at, limit: null, rate: { max: 9, per: "1m", key: "card.holder" } };
    const { body } = await admin.call("patch", "queues/default", { body: patch });
    expect(JSON.stringify(body)).not.toContain("4111");
    expect(body.limits).toContainEqual(
      expect.objectContaining({
        key: "card.number",
        paused: [expect.objectContaining({ key: R })],
      }),
    );
    expect(JSON.stringify((await admin.get("audit")).body)).not.toContain("4111");
    await admin.jobs.queues.resume("default", { ...part, keyPath: "card.number" });
    await admin.jobs.queues.limit("default", at);
  });

  it("a key that holds what is not shown is not shown either", async () => {
    const whole = '{"holder": "Ada", "number": "4111 1111"}';
    await admin.jobs.queues.limit("default", { kind: "charge", limit: { max: 9, key: "card" } });
    const pause = async (key: string) =>
      said(await admin.post("queues/default/pause", { body: { kind: "charge", key } }));
    expect(await pause(whole)).toEqual([400, "PAYLOAD_REDACTED"]);
    expect(await pause("gold")).toEqual([200, undefined]);
    await admin.jobs.queues.pause("default", { kind: "charge", key: whole });
    const { limits } = (await admin.get("queues/default")).body;
    expect(limits).toMatchObject([{ key: "card", paused: [{ key: "gold" }, { key: R }] }]);
    for (const key of [whole, "gold"])
      await admin.jobs.queues.resume("default", { kind: "charge", key });
    await admin.jobs.queues.limit("default", { kind: "charge" });
  });

  it("who may not see payloads does not bound or pause by what is in them", async () => {
    const shut = await AdminApp.open(bench, adapter, { tokens: TOKENS, payloads: "admin" });
    const limit = { max: 9, key: "card.holder" };
    const patch = async (as: keyof typeof TOKENS, one: object | null) =>
      said(
        await shut.call("patch", "queues/default", {
          as,
          body: { kind: "charge", limit: one, rate: null },
        }),
      );
    expect(await patch("operator", [limit])).toEqual([403, "ROLE_TOO_WEAK"]);
    expect(await patch("operator", limit)).toEqual([403, "ROLE_TOO_WEAK"]);
    expect(await patch("admin", limit)).toEqual([200, undefined]);
    const body = { kind: "charge", key: "Ada" };
    for (const as of ["operator", "admin"] as const) {
      const answers = [
        await shut.post("queues/default/pause", { as, body }),
        await shut.post("queues/default/pause", { as, body: { ...body, keyPath: "card.holder" } }),
      ];
      const expected = as === "admin" ? [200, undefined] : [403, "ROLE_TOO_WEAK"];
      expect(answers.map(said)).toEqual([expected, expected]);
    }
    const seen = async (as: keyof typeof TOKENS) =>
      (await shut.get("queues/default", { as })).body.limits;
    expect(await seen("admin")).toMatchObject([{ key: "card.holder", paused: [{ key: "Ada" }] }]);
    expect(await seen("operator")).toMatchObject([{ key: "card.holder", paused: [{ key: R }] }]);
    const resume = async (as: keyof typeof TOKENS) =>
      said(await shut.delete("queues/default/pause?kind=charge&key=Ada", { as }));
    expect(await resume("operator")).toEqual([403, "ROLE_TOO_WEAK"]);
    expect(await resume("admin")).toEqual([200, undefined]);
    expect(await patch("operator", null)).toEqual([200, undefined]);
    await shut.close();
  });

  it("what was looked for in payloads is seen by who sees them, and is in no audit", async () => {
    const body = { action: "delete", payload: "card.holder:Nobody", kind: "charge", expected: 1 };
    expect(said(await admin.post("bulk", { body }))).toEqual([409, "BULK_COUNT_DIFFERS"]);
    await admin.jobs.enqueue(Charge, { card: { ...card, holder: "Nobody" } }, { delay: "1h" });
    const made = await admin.post("bulk", { body });
    const filter = (value: string) => ({ payload: { path: ["card", "holder"], value } });
    expect(made.body.filter).toMatchObject(filter("Nobody"));
    const of = async (as: "viewer" | "operator") =>
      (await admin.get(`bulk/${String(made.body.id)}`, { as })).body.filter;
    expect(await of("operator")).toMatchObject(filter("Nobody"));
    expect(await of("viewer")).toMatchObject(filter(R));
    const list = (await admin.get("bulk", { as: "viewer" })).body.items as unknown as object[];
    expect(list[0]).toMatchObject({ filter: filter(R) });
    const audit = (await admin.get("audit?action=startBulk")).body.items as unknown as object[];
    expect(audit[0]).toMatchObject({ details: { payload: { path: "card.holder" } } });
    expect(JSON.stringify(audit)).not.toMatch(/Nobody/);
  });

  it("results are redacted too, and payloads of schedules", async () => {
    const done = (await admin.jobs.enqueue("gives", {})).id;
    await until(async () => (await bench.state(done)) === "succeeded", { what: "it succeeds" });
    const { result } = (await admin.get(`jobs/${done}`)).body;
    expect(result).toEqual({ token: "[redacted]", ok: true });
    const options = { cron: "@daily", payload: { card } };
    await admin.jobs.schedules.upsert("daily", "charge", options);
    const schedules = async (as: "viewer" | "admin") =>
      ((await admin.get("schedules", { as })).body.items as unknown as object[])[0];
    expect(await schedules("admin")).toMatchObject({ payload: { card: { number: "[redacted]" } } });
    expect(await schedules("viewer")).toMatchObject({
      withheld: { members: ["payload"], role: "operator" },
    });
    expect(await schedules("viewer")).not.toHaveProperty("payload");
    const paused = await admin.post("schedules/daily/pause", { as: "operator" });
    expect(paused.body.payload).toEqual({ card: { number: "[redacted]", holder: "Ada" } });
  });

  it("what is shown in place of a value is never stored as that value", async () => {
    const { payload } = (await admin.get(`jobs/${id}`)).body;
    const answer = await admin.post(`jobs/${id}/requeue`, { body: { payload } });
    expect(said(answer)).toEqual([400, "PAYLOAD_REDACTED"]);
    expect(answer.body.detail).toMatch(/^Expected at payload.card.number what the handler/);
    expect(await admin.jobs.get(id)).toMatchObject({ state: "dead", payload: { card } });
  });

  it("what a schema says of a payload is for those who see it, and quotes nothing then", async () => {
    const secret = { card: { number: 4111 } };
    const bad = (await admin.jobs.enqueue("charge", secret, { attempts: 1 })).id;
    await until(async () => (await bench.state(bad)) === "dead", { what: "it is dead" });
    const issues = async (as: "viewer" | "operator") => {
      const { body } = await admin.get(`jobs/${bad}`, { as });
      const { errors } = body as unknown as { errors: { error: { issues?: object[] } }[] };
      return errors[0]!.error.issues;
    };
    expect(await issues("operator")).toContainEqual({
      path: "payload.card.number",
      message: "[redacted]",
    });
    expect(await issues("viewer")).toBeUndefined();
  });

  it("the permission is an option", async () => {
    const open = await AdminApp.open(bench, adapter, { tokens: TOKENS, payloads: "viewer" });
    const shut = await AdminApp.open(bench, adapter, { tokens: TOKENS, payloads: "admin" });
    expect((await open.get(`jobs/${id}`, { as: "viewer" })).body.payload).toEqual({ card });
    expect((await shut.get(`jobs/${id}`, { as: "operator" })).body.withheld).toEqual({
      members: ["payload", "result"],
      role: "admin",
    });
    expect((await shut.get(`jobs/${id}`, { as: "admin" })).body.payload).toEqual({ card });
    await open.close();
    await shut.close();
  });
});
