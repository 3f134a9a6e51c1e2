import { setTimeout as sleep } from "node:timers/promises";
import { jest } from "@jest/globals";
import { JobInspector, bury } from "nestjs-pg-jobs";
import {
  ADAPTERS,
  type AdminAnswer,
  AdminApp,
  type AdminEvent,
  TOKENS,
  eventsOf,
  said,
} from "../support/admin-app.js";
import { handler, reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

// What is told to those who look, as it comes.

/** Somebody who follows, and all that he was told. */
class Follower {
  readonly events: AdminEvent[] = [];
  ended = false;
  private constructor(private readonly leaving: AbortController) {}

  static async begin(
    admin: AdminApp,
    after?: string,
    token: string = TOKENS.viewer,
  ): Promise<Follower> {
    const leaving = new AbortController();
    const response = await fetch(`${admin.url}/admin/events`, {
      headers: {
        authorization: `Bearer ${token}`,
        ...(after === undefined ? {} : { "last-event-id": after }),
      },
      signal: leaving.signal,
    });
    if (response.status !== 200) throw new Error(`expected 200, found ${response.status}`);
    const follower = new Follower(leaving);
    void follower.#hear(response);
    return follower;
  }

  leave(): void {
    this.leaving.abort();
  }

  of(type: string): AdminEvent[] {
    return this.events.filter((event) => event.type === type);
  }

  deaths(): unknown[] {
    return this.of("dead").map(({ data }) => data.id);
  }

  async #hear(response: Response): Promise<void> {
    try {
      for await (const event of eventsOf(response)) this.events.push(event);
    } catch {
      // he has left
    }
    this.ended = true;
  }
}

describe.each(ADAPTERS)("on %s", (adapter) => {
  let bench: Bench;
  let admin: AdminApp;
  const followers: Follower[] = [];
  const follow = async (after?: string, app = admin): Promise<Follower> => {
    const follower = await Follower.begin(app, after);
    followers.push(follower);
    return follower;
  };
  beforeAll(async () => {
    bench = await Bench.open();
    admin = await AdminApp.open(bench, adapter);
    await bench.worker([handler("dies", () => bury("it has to"))]);
  });
  afterEach(() => {
    for (const follower of followers.splice(0)) follower.leave();
    jest.restoreAllMocks();
  });
  afterAll(async () => {
    await admin.close();
    await bench.close();
  });

  const die = async (): Promise<string> => {
    const { id } = await admin.jobs.enqueue("dies", {});
    await reached(bench, id, "dead");
    return id;
  };
  /** Older than what a look goes back. */
  const longAgo = async () =>
    await bench.sql("update jobs.dead set finished_at = finished_at - interval '1 hour'");

  it("tells what there is, and then what changes", async () => {
    await admin.jobs.enqueue("waits", {}, { delay: "1h" });
    const viewer = await follow();
    const [first] = await until(() => viewer.events.length > 0 && viewer.events, {
      what: "it begins",
    });
    expect(first).toMatchObject({ type: "stats", id: expect.stringMatching(/^20.*Z$/) });
    const { readAt, ...stats } = (await admin.get("stats")).body;
    expect(first!.data).toMatchObject({ counts: stats.counts, readAt: expect.any(String) });
    expect(Date.parse(String(readAt))).toBeGreaterThan(Date.now() - 60_000);
    await admin.jobs.enqueue("waits", {}, { delay: "1h", queue: "another" });
    await until(
      () =>
        viewer
          .of("stats")
          .some(({ data }) =>
            (data.queues as { queue: string }[]).some((q) => q.queue === "another"),
          ),
      { what: "the new queue is told of" },
    );
  });

  it("tells each death once to all who look, and nothing twice while nothing changes", async () => {
    const viewers = await Promise.all([follow(), follow(), follow()]);
    await until(() => viewers.every(({ events }) => events.length > 0), { what: "they look" });
    const ids = [await die(), await die()];
    await until(() => viewers.every((one) => ids.every((id) => one.deaths().includes(id))), {
      what: "they have died",
    });
    // The looks behind it go over the same seconds again.
    const third = await die();
    await until(() => viewers.every((one) => one.deaths().includes(third)), { what: "one more" });
    for (const viewer of viewers) {
      expect(viewer.deaths().filter((id) => [...ids, third].includes(String(id)))).toEqual([
        ...ids,
        third,
      ]);
      const [death] = viewer.of("dead").filter(({ data }) => data.id === ids[0]);
      expect(death!.data).toMatchObject({
        kind: "dies",
        state: "dead",
        lastError: expect.stringContaining("it has to"),
      });
      expect(death!.id).toBe(death!.data.finishedAt);
    }
  });

  it("whoever was cut off is told who has died meanwhile", async () => {
    const before = await die();
    await longAgo();
    const viewer = await follow();
    await until(() => viewer.events.length > 0, { what: "it begins" });
    viewer.leave();
    const last = viewer.events.at(-1)!.id;
    const missed = [await die(), await die()];
    const again = await follow(last);
    await until(() => again.of("stats").length > 0, { what: "it begins again" });
    // Before the stats, and again with no later look.
    expect(again.events.slice(0, 3).map(({ type }) => type)).toEqual(["dead", "dead", "stats"]);
    expect(again.deaths()).toEqual(missed);
    const later = await die();
    await until(() => again.deaths().includes(later), { what: "what comes is told" });
    expect(again.deaths()).toEqual([...missed, later]);
    expect(again.deaths()).not.toContain(before);
  });

  it("whoever comes while the database is away ends, and has missed nothing when it is back", async () => {
    await longAgo();
    const { proxy, url } = await bench.line();
    const own = await AdminApp.open(bench, adapter, undefined, { jobs: { connection: { url } } });
    try {
      const viewer = await follow(undefined, own);
      await until(() => viewer.of("stats").length > 0, { what: "it begins" });
      viewer.leave();
      const last = viewer.events.at(-1)!.id;
      proxy.setMode("reset");
      const missed = await die();
      const early = await follow(last, own);
      await until(() => early.ended, { what: "it ends", timeout: 30_000 });
      expect(early.events.map(({ type, id }) => [type, id])).toEqual([["problem", last]]);
      proxy.setMode("pass");
      const late = await until(
        async () => {
          const again = await follow(last, own);
          await until(() => again.ended || again.of("stats").length > 0, { what: "it begins" });
          return !again.ended && again;
        },
        { what: "it is back", timeout: 60_000 },
      );
      expect(late.deaths()).toEqual([missed]);
    } finally {
      await own.close();
    }
  });

  it("whoever comes anew is not told who has died before", async () => {
    const before = await die();
    const viewer = await follow();
    await until(() => viewer.of("stats").length > 0, { what: "it begins" });
    const after = await die();
    await until(() => viewer.deaths().includes(after), { what: "the next one is told" });
    expect(viewer.deaths()).not.toContain(before);
  });

  it("says when more have died than are told one by one", async () => {
    await longAgo();
    const viewer = await follow();
    await until(() => viewer.events.length > 0, { what: "it begins" });
    await bench.sql(
      `insert into jobs.dead (id, created_at, run_at, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason)
       select 1000000 + n, now(), now(), 1, l.queue_id, 1, 0, l.id, 1, l.kind, '{}', 'seeded'
       from generate_series(1, 600) n, jobs.lane l where l.kind = 'dies'`,
    );
    const [missed] = await until(() => viewer.of("missed").length > 0 && viewer.of("missed"), {
      what: "it is said",
    });
    expect(missed!.id).not.toBe("");
    expect(Date.parse(String(missed!.data.since))).toBeGreaterThan(Date.now() - 60_000);
    expect(viewer.of("dead").length).toBeLessThanOrEqual(500);
    const again = await follow(missed!.id);
    await until(() => again.of("missed").length > 0, { what: "it is said anew" });
    await longAgo();
  });

  it.each(["1", "yesterday", "2026-02-31T00:00:00.000Z", "2026-01-01", "x".repeat(500)])(
    "refuses %s for an id of an event",
    async (after) => {
      const answer = await admin.get("events", { headers: { "last-event-id": after } });
      expect(said(answer)).toEqual([400, "LAST_EVENT_ID_INVALID"]);
    },
  );

  it("however many look, the database is asked for one; and for none when nobody looks", async () => {
    const inspector = admin.app.get(JobInspector);
    const asked = [
      jest.spyOn(inspector, "health"),
      jest.spyOn(inspector, "counts"),
      jest.spyOn(inspector, "unknownKinds"),
    ];
    const looks = jest.spyOn(inspector, "died");
    const viewers = await Promise.all(Array.from({ length: 20 }, () => follow()));
    await until(() => viewers.every(({ events }) => events.length > 0), { what: "all look" });
    for (const one of asked) expect(one.mock.calls.length).toBeLessThanOrEqual(2);
    const [begun, from] = [looks.mock.calls.length, performance.now()];
    expect(begun).toBeLessThanOrEqual(42);
    await until(() => looks.mock.calls.length >= begun + 3, { what: "three more looks" });
    expect(performance.now() - from).toBeGreaterThan(3_500);
    for (const one of asked) expect(one.mock.calls.length).toBeLessThanOrEqual(8);
    for (const viewer of viewers) viewer.leave();
    await until(() => viewers.every(({ ended }) => ended), { what: "all have left" });
    const ended = looks.mock.calls.length;
    // That nothing comes can only be waited for: two looks and a half.
    await sleep(5_000);
    expect(looks.mock.calls.length).toBeLessThanOrEqual(ended + 1);
    const other = await follow();
    await until(() => other.events.length > 0, { what: "another one begins" });
  });

  it("says what is wrong while the database is away, and goes on when it is back", async () => {
    const { proxy, url } = await bench.line();
    const own = await AdminApp.open(bench, adapter, undefined, { jobs: { connection: { url } } });
    try {
      const viewer = await follow(undefined, own);
      await until(() => viewer.of("stats").length > 0, { what: "it begins" });
      proxy.setMode("reset");
      const [problem] = await until(() => viewer.of("problem").length > 0 && viewer.of("problem"), {
        what: "it says so",
        timeout: 30_000,
      });
      expect(problem!.data).toMatchObject({ status: 503, code: "DATABASE_UNAVAILABLE" });
      expect(problem!.id).not.toBe("");
      const before = viewer.of("stats").length;
      proxy.setMode("pass");
      await until(() => viewer.of("stats").length > before, {
        what: "it is back",
        timeout: 40_000,
      });
      expect(viewer.of("problem")).toHaveLength(1);
    } finally {
      await own.close();
    }
  });

  it("no more than 50 follow in one name, and 200 in all; and the app closes though they do", async () => {
    const names = ["a", "b", "c", "d", "e"].map((letter) => letter.repeat(16));
    const own = await AdminApp.open(bench, adapter, { tokens: { viewer: names } });
    const begin = async (token: string) => {
      const follower = await Follower.begin(own, undefined, token);
      followers.push(follower);
      return follower;
    };
    const refused = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return await own.get("events", { as: null, headers });
    };
    const many: Follower[] = [];
    const answers: AdminAnswer[] = [];
    for (const token of names.slice(0, 4)) {
      many.push(...(await Promise.all(Array.from({ length: 50 }, () => begin(token)))));
      answers.push(await refused(token));
    }
    for (const answer of answers) expect(said(answer)).toEqual([503, "TOO_MANY_VIEWERS"]);
    expect(answers[1]!.body.detail).toMatch(/at most 50 who follow at once as viewer 2,/);
    expect((await refused(names[4]!)).body.detail).toMatch(/at most 200 who follow at once, /);
    const from = performance.now();
    await own.close();
    expect(performance.now() - from).toBeLessThan(5_000);
    await until(() => many.every(({ ended }) => ended), { what: "they are told that it ends" });
  });
});
