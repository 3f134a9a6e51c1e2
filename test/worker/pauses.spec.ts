import { jest } from "@jest/globals";
import { Logger } from "@nestjs/common";
import {
  type JobQueue,
  OptionsError,
  type QueueView,
  SchemaNotReadyError,
  UnknownKindError,
  UnknownQueueError,
  defineJob,
} from "nestjs-pg-jobs";
import { applyWithin } from "../../libs/jobs/src/store/migrations/migrate.js";
import { Gate, handler } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { Role } from "../support/role.js";
import { until } from "../support/until.js";

const Mail = defineJob("mail", { queue: "out" });
const Fax = defineJob("fax", { queue: "out" });
const WITHIN_MS = 1_000;

let bench: Bench;
beforeEach(async () => void (bench = await Bench.open()));
afterEach(async () => await bench.close());

/** Handlers of both kinds that tell when they began. */
function telling() {
  const began: { kind: string; at: number }[] = [];
  const tell = (kind: string) => () => void began.push({ kind, at: performance.now() });
  const feature = [handler(Mail, tell("mail")), handler(Fax, tell("fax"))];
  const of = (kind: string) => began.filter((one) => one.kind === kind).length;
  return { began, feature, of };
}

/** Both kinds are known, and nothing waits. */
async function ran(jobs: JobQueue, of: (kind: string) => number) {
  await jobs.enqueue(Mail, {});
  await jobs.enqueue(Fax, {});
  await until(() => of("mail") + of("fax") >= 2, { what: "both kinds have run" });
}

describe("a queue that is paused", () => {
  it.each([
    ["with LISTEN", {}],
    ["without", { notify: false }],
  ])("starts nothing on any worker, until it is resumed: %s", async (_, options) => {
    const { began, feature, of } = telling();
    for (let n = 0; n < 3; n++) await bench.worker(feature, { poll: "500ms" }, options);
    const jobs = await bench.producer();
    await ran(jobs, of);

    const pouring = setInterval(() => void jobs.enqueueMany(Mail, [{}, {}, {}]), 20);
    await until(() => of("mail") > 20, { what: "they pour in" });
    const view = await jobs.queues.pause("out", { by: "ada", why: "the relay is down" });
    const pausedAt = performance.now();
    expect(view.paused).toMatchObject({ by: "ada", why: "the relay is down", until: null });
    await until(async () => ((await bench.states()).queued ?? 0) > 60, { what: "they wait" });
    clearInterval(pouring);
    expect(began.filter(({ at }) => at > pausedAt + WITHIN_MS)).toEqual([]);
    expect((await bench.states()).running ?? 0).toBe(0);

    const resumed = await jobs.queues.resume("out");
    const resumedAt = performance.now();
    expect(resumed.paused).toBeNull();
    await until(async () => (await bench.states()).queued === undefined, { what: "all have run" });
    const next = began.find(({ at }) => at > resumedAt);
    expect(next!.at - resumedAt).toBeLessThan(WITHIN_MS);
  });

  it("lets what runs go on, and gives back at once what only waits for a slot", async () => {
    const gate = new Gate();
    const started: string[] = [];
    const body = async (_: unknown, job: { id: string }): Promise<void> => {
      started.push(job.id);
      await gate.opened;
    };
    await bench.worker([handler(Mail, body)], {
      queues: { out: { concurrency: 2, prefetch: 10 } },
    });
    const jobs = await bench.producer();
    const all = await jobs.enqueueMany(
      Mail,
      Array.from({ length: 12 }, () => ({})),
    );
    await until(async () => (await held()) === 12, { what: "twelve are claimed" });
    await jobs.queues.pause("out");
    await until(async () => (await held()) === 2, { what: "ten are given back" });
    gate.open();
    await until(async () => (await bench.states()).succeeded === 2, { what: "two have succeeded" });
    expect(started).toHaveLength(2);
    const rest = all.map(({ id }) => id).filter((id) => !started.includes(id));
    for (const id of rest)
      expect(await jobs.get(id)).toMatchObject({ state: "queued", failures: 0 });
    await jobs.queues.resume("out");
    await until(async () => (await bench.states()).succeeded === 12, { what: "all have" });
    expect(new Set(started).size).toBe(12);
  });

  it("goes on by itself when its time is over, by the clock of the database", async () => {
    const { began, feature, of } = telling();
    await bench.worker(feature, { poll: "2s" });
    const jobs = await bench.producer();
    await ran(jobs, of);
    const [{ then }] = (await bench.sql<{ then: Date }>(
      "select now() + interval '1.2 seconds' as then",
    )) as [{ then: Date }];
    const from = performance.now();
    const { paused } = await jobs.queues.pause("out", { until: then });
    expect(paused!.until).toEqual(then);
    began.length = 0;
    await jobs.enqueue(Mail, {});
    await until(() => began.length === 1, { what: "it runs" });
    expect(began[0]!.at - from).toBeGreaterThan(1_100);
    expect(began[0]!.at - from).toBeLessThan(1_200 + WITHIN_MS);
    expect((await jobs.queues.get("out"))!.paused).toBeNull();
  });

  it("is paused for a worker that comes later", async () => {
    const jobs = await bench.producer();
    await jobs.enqueue(Mail, {});
    await jobs.enqueue(Fax, {});
    await jobs.queues.pause("out", { kind: "mail" });
    const { feature, of } = telling();
    await bench.worker(feature, { poll: "200ms" });
    await until(() => of("fax") === 1, { what: "the other kind runs" });
    await jobs.queues.resume("out", { kind: "mail" });
    await until(() => of("mail") === 1, { what: "it goes on" });
  });

  it("is known to a worker that began before the schema could have pauses", async () => {
    const old = await Bench.open({ migrated: false });
    try {
      const session = old.session();
      await session.transaction(async (run) => await applyWithin({ run }, old.schema, 3));
      const { feature, of } = telling();
      await old.worker(feature, { poll: "200ms" });
      const jobs = await old.producer();
      await ran(jobs, of);
      await expect(jobs.queues.pause("out")).rejects.toThrow(SchemaNotReadyError);
      await old.migrate();
      await jobs.queues.pause("out");
      await jobs.enqueue(Mail, {});
      await jobs.enqueue(Fax, {});
      await jobs.queues.resume("out");
      await until(() => of("mail") + of("fax") === 4, { what: "it goes on" });
    } finally {
      await old.close();
    }
  });
});

it("is not heeded by a role without the grant, which says so and works on", async () => {
  const warned = jest.spyOn(Logger.prototype, "warn").mockImplementation(() => undefined);
  const role = await Role.create(bench);
  try {
    await role.grantAll();
    await bench.sql(`revoke all on jobs.pause from ${role.name}`);
    const { feature, of } = telling();
    await bench.worker(feature, {}, { connection: { url: role.url } });
    const jobs = await bench.producer();
    await ran(jobs, of);
    expect(warned.mock.calls.flat()).toContainEqual(
      expect.objectContaining({ cause: expect.stringContaining("permission denied") }),
    );
  } finally {
    await bench.closeApps();
    await role.drop();
    warned.mockRestore();
  }
});

describe("a kind that is paused", () => {
  it("leaves the others of its queue alone, and is paused apart from its queue", async () => {
    const { feature, of } = telling();
    for (let n = 0; n < 2; n++) await bench.worker(feature, { poll: "500ms" });
    const jobs = await bench.producer();
    await ran(jobs, of);
    const view = await jobs.queues.pause("out", { kind: "mail", why: "quota" });
    expect(view).toMatchObject<Partial<QueueView>>({
      paused: null,
      kinds: [{ kind: "mail", paused: expect.objectContaining({ why: "quota" }) }],
    });
    await jobs.enqueue(Mail, {});
    for (let n = 0; n < 5; n++) await jobs.enqueue(Fax, {});
    await until(() => of("fax") === 6, { what: "the others run" });
    expect(of("mail")).toBe(1);

    await jobs.queues.pause("out");
    await jobs.queues.resume("out", { kind: "mail" });
    expect(await jobs.queues.get("out")).toMatchObject({
      paused: expect.objectContaining({ why: null }),
      kinds: [],
    });
    expect(of("mail")).toBe(1);
    await jobs.queues.resume("out");
    await until(() => of("mail") === 2, { what: "it goes on" });
  });
});

describe("what people say of a pause", () => {
  it("is what the last of them said; since when stays", async () => {
    const jobs = await bench.producer();
    await jobs.enqueue(Mail, {});
    const first = await jobs.queues.pause("out", { by: "ada", why: "first" });
    const second = await jobs.queues.pause("out", { by: "bob" });
    expect(second.paused).toEqual({ ...first.paused, by: "bob", why: null });
    expect(await jobs.queues.list()).toEqual([second]);
    expect((await jobs.queues.resume("out")).paused).toBeNull();
    expect((await jobs.queues.resume("out")).paused).toBeNull();
  });

  it("is refused when it fits nothing, at once, and nothing is paused", async () => {
    const jobs = await bench.producer();
    await jobs.enqueue(Mail, {});
    const refused = async (call: () => Promise<unknown>, type: new (...args: never[]) => Error) => {
      const error = await call().then(
        () => undefined,
        (thrown: Error) => thrown,
      );
      expect(error).toBeInstanceOf(type);
      return error!.message;
    };
    expect(await refused(() => jobs.queues.pause("outt"), UnknownQueueError)).toContain(
      'did you mean "out"?',
    );
    const unknownKind = () => jobs.queues.pause("out", { kind: "mial" });
    expect(await refused(unknownKind, UnknownKindError)).toContain('did you mean "mail"?');
    expect(await refused(() => jobs.queues.resume("nowhere"), UnknownQueueError)).toContain(
      "jobs.queues.list()",
    );
    for (const bad of [
      { until: new Date(Number.NaN) },
      { until: "tomorrow" },
      { until: new Date(8.64e15) },
      { until: new Date(Date.now() - 3_600_000) },
      { why: 7 },
      { by: "\0" },
      { wy: "x" },
      { kind: "" },
    ])
      await refused(() => jobs.queues.pause("out", bad as object), OptionsError);
    await refused(() => jobs.queues.pause(7 as never), OptionsError);
    expect(await jobs.queues.get("out")).toEqual({ name: "out", paused: null, kinds: [] });
    expect(await jobs.queues.get("nowhere")).toBeNull();
  });
});

async function held(): Promise<number> {
  const [{ n }] = (await bench.sql<{ n: number }>(
    "select count(*)::int as n from jobs.job where worker is not null",
  )) as [{ n: number }];
  return n;
}
