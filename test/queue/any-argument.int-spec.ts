import { HealthIndicatorService } from "@nestjs/terminus";
import { JobInspector, JobQueue, JobsError } from "nestjs-pg-jobs";
import { JobsHealthIndicator } from "../../libs/jobs/src/terminus/index.js";
import { Bench } from "../support/harness.js";

// Whatever a caller hands in, by mistake or from a request: it is taken, or refused with an error of ours.

let bench: Bench;
let jobs: JobQueue;
let inspector: JobInspector;
let indicator: JobsHealthIndicator;
let id: string;
beforeAll(async () => {
  bench = await Bench.open();
  const app = await bench.app([bench.root()]);
  jobs = app.get(JobQueue);
  inspector = app.get(JobInspector);
  indicator = new JobsHealthIndicator(new HealthIndicatorService(), inspector);
  ({ id } = await jobs.enqueue("work", {}));
  await jobs.schedules.upsert("z", "work", { cron: "@yearly" });
});
afterAll(async () => await bench.close());

const own = new Error("a trap's own fault");
const trap = () => {
  throw own;
};
const traps = { get: trap, has: trap, ownKeys: trap, getOwnPropertyDescriptor: trap };
const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};
const VALUES: Record<string, unknown> = {
  null: null,
  "5": 5,
  "-1": -1,
  NaN: Number.NaN,
  "''": "",
  "[]": [],
  "[5]": [5],
  "[null]": [null],
  "{}": {},
  "a symbol": Symbol("s"),
  "a function": () => 1,
  "a BigInt": 1n,
  "a getter that throws": Object.defineProperty({}, "payload", { enumerable: true, get: trap }),
  "a proxy that throws": new Proxy({}, { ...traps, getPrototypeOf: trap }),
  "a list that throws": new Proxy([], traps),
  "a revoked proxy": revoked(),
};

type Call = (value: never) => unknown;
const first = async (all: AsyncIterable<unknown>) => {
  for await (const one of all) return one;
};
const transactional =
  (call: (queue: ReturnType<JobQueue["in"]>, value: never) => unknown): Call =>
  async (value) => {
    const client = await bench.client();
    await client.query("begin");
    try {
      return await call(jobs.in(client), value);
    } finally {
      await client.query("rollback");
      client.release();
    }
  };

/** Each argument of each method, and which of the values it takes. */
const ARGUMENTS: [string, Call, string[]][] = [
  ["enqueue: definition", (v) => jobs.enqueue(v as string, {}), []],
  [
    "enqueue: payload",
    (v) => jobs.enqueue("work", v),
    ["null", "5", "-1", "''", "[]", "[5]", "[null]", "{}"],
  ],
  ["enqueue: options", (v) => jobs.enqueue("work", {}, v), ["{}"]],
  ["enqueueMany: definition", (v) => jobs.enqueueMany(v as string, []), []],
  ["enqueueMany: items", (v) => jobs.enqueueMany("work", v), ["[]", "[5]", "[null]"]],
  [
    "enqueueMany: an item",
    (v) => jobs.enqueueMany("work", [v]),
    ["null", "5", "-1", "''", "[]", "[5]", "[null]", "{}"],
  ],
  [
    "enqueueMany: a payload",
    (v) => jobs.enqueueMany("work", [{ payload: v }]),
    ["null", "5", "-1", "''", "[]", "[5]", "[null]", "{}"],
  ],
  ["enqueueMany: an option", (v) => jobs.enqueueMany("work", [{ payload: 1, key: v }]), []],
  ["enqueueMany: shared", (v) => jobs.enqueueMany("work", [{ payload: 1, delay: 1 }], v), ["{}"]],
  ["enqueueMany: shared by none", (v) => jobs.enqueueMany("work", [], v), ["{}"]],
  ["in", (v) => jobs.in(v), []],
  [
    "in: what query() gives",
    (v) => jobs.in({ query: async () => ({ rows: v }) }).enqueue("work", {}),
    ["[]"],
  ],
  ["in.enqueue: definition", transactional((queue, v) => queue.enqueue(v as string, {})), []],
  ["in.enqueue: options", transactional((queue, v) => queue.enqueue("work", {}, v)), ["{}"]],
  [
    "in.enqueueMany: shared",
    transactional((queue, v) => queue.enqueueMany("work", [1], v)),
    ["{}"],
  ],
  ["get", (v) => jobs.get(v), []],
  ["requeue: id", (v) => jobs.requeue(v), []],
  ["requeue: options", (v) => jobs.requeue(id, v), ["{}"]],
  [
    "requeue: payload",
    (v) => jobs.requeue(id, { payload: v }),
    ["null", "5", "-1", "''", "[]", "[5]", "[null]", "{}"],
  ],
  ["close", (v) => jobs.close(v), ["5"]],
  ["JobInspector.get", (v) => inspector.get(v), []],
  ["JobInspector.attempts", (v) => inspector.attempts(v), []],
  ["cancel", (v) => jobs.cancel(v), []],
  ["in.cancel", transactional((queue, v) => queue.cancel(v)), []],
  ["JobInspector.list: filter", (v) => inspector.list(v), ["{}"]],
  ["JobInspector.list: page", (v) => inspector.list({}, v), ["{}"]],
  ...["state", "queue", "kind", "key", "priority", "createdSince", "finishedBefore"].map(
    (name): [string, Call, string[]] => [
      `JobInspector.list: ${name}`,
      (v) => inspector.list({ [name]: v }),
      name === "priority" ? ["5", "-1"] : [],
    ],
  ),
  ["JobInspector.list: limit", (v) => inspector.list({}, { limit: v }), ["5"]],
  ["JobInspector.list: after", (v) => inspector.list({}, { after: v }), []],
  ["JobInspector.history", (v) => inspector.history(v), []],
  ["JobInspector.progress", (v) => inspector.progress(v), []],
  ["JobInspector.logs: id", (v) => inspector.logs(v), []],
  ["JobInspector.logs: page", (v) => inspector.logs(id, v), ["{}"]],
  ["JobInspector.logs: attempt", (v) => inspector.logs(id, { attempt: v }), ["5"]],
  ["JobInspector.logs: limit", (v) => inspector.logs(id, { limit: v }), ["5"]],
  ["JobInspector.logs: after", (v) => inspector.logs(id, { after: v }), []],
  ["JobInspector.health", (v) => inspector.health(v), ["[]"]],
  ["publish: event", (v) => jobs.publish(v as string, {}), []],
  [
    "publish: payload",
    (v) => jobs.publish("happened", v),
    ["null", "5", "-1", "''", "[]", "[5]", "[null]", "{}"],
  ],
  ["publish: options", (v) => jobs.publish("happened", {}, v), ["{}"]],
  ...["routingKey", "key", "delay", "at", "window", "onConflict"].map(
    (name): [string, Call, string[]] => [
      `publish: ${name}`,
      (v) => jobs.publish("happened", {}, { [name]: v }),
      name === "delay" ? ["5"] : [],
    ],
  ),
  ["subscriptions", (v) => jobs.subscriptions(v), []],
  ["result: id", (v) => jobs.result(v), []],
  ["result: timeout", (v) => jobs.result(id, { timeout: v }), []],
  ["result: signal", (v) => jobs.result(id, { timeout: 1, signal: v }), []],
  ...(["get", "pause", "resume", "limits"] as const).map((name): [string, Call, string[]] => [
    `queues.${name}`,
    (v) => jobs.queues[name](v),
    [],
  ]),
  ["queues.pause: options", (v) => jobs.queues.pause("default", v), ["{}"]],
  ["queues.resume: options", (v) => jobs.queues.resume("default", v), ["{}"]],
  ...["kind", "key", "keyPath", "by", "why", "until"].map((name): [string, Call, string[]] => [
    `queues.pause: ${name}`,
    (v) => jobs.queues.pause("default", { [name]: v }),
    name === "by" || name === "why" ? ["''"] : [],
  ]),
  ["queues.limit: queue", (v) => jobs.queues.limit(v, {}), []],
  ["queues.limit: order", (v) => jobs.queues.limit("default", v), ["{}"]],
  ...["kind", "limit", "rate", "by", "why"].map((name): [string, Call, string[]] => [
    `queues.limit: ${name}`,
    (v) => jobs.queues.limit("default", { [name]: v }),
    name === "limit" || name === "rate" ? ["[]"] : name === "kind" ? [] : ["''"],
  ]),
  ["schedules.upsert: name", (v) => jobs.schedules.upsert(v, "work", { cron: "@yearly" }), []],
  [
    "schedules.upsert: definition",
    (v) => jobs.schedules.upsert("s", v as string, { cron: "@yearly" }),
    [],
  ],
  ["schedules.upsert: options", (v) => jobs.schedules.upsert("s", "work", v), []],
  [
    "schedules.upsert: payload",
    (v) => jobs.schedules.upsert("s", "work", { cron: "@yearly", payload: v }),
    ["null", "5", "-1", "''", "[]", "[5]", "[null]", "{}"],
  ],
  ...["cron", "timeZone", "overlap", "misfire", "queue", "priority", "attempts", "timeout"].map(
    (name): [string, Call, string[]] => [
      `schedules.upsert: ${name}`,
      (v) => jobs.schedules.upsert("s", "work", { cron: "@yearly", [name]: v }),
      name === "priority" ? ["5", "-1"] : name === "attempts" || name === "timeout" ? ["5"] : [],
    ],
  ),
  ...(["get", "pause", "resume", "runNow", "remove"] as const).map(
    (name): [string, Call, string[]] => [`schedules.${name}`, (v) => jobs.schedules[name](v), []],
  ),
  ["schedules.pause: options", (v) => jobs.schedules.pause("z", v), ["{}"]],
  ["JobInspector.follow: id", (v) => first(inspector.follow(v)), []],
  ["JobInspector.follow: options", (v) => first(inspector.follow(id, v)), ["{}"]],
  ...["signal", "after"].map((name): [string, Call, string[]] => [
    `JobInspector.follow: ${name}`,
    (v) => first(inspector.follow(id, { [name]: v })),
    [],
  ]),
  ["JobsHealthIndicator.check: key", (v) => indicator.check(v), []],
  ["JobsHealthIndicator.check: options", (v) => indicator.check("jobs", v), ["{}"]],
  ["JobsHealthIndicator.check: queues", (v) => indicator.check("jobs", { queues: v }), []],
];

describe.each(ARGUMENTS)("%s", (_, call, taken) => {
  it.each(Object.keys(VALUES))("is refused with an error of ours, or takes: %s", async (name) => {
    const answer = await Promise.resolve()
      .then(async () => await call(VALUES[name] as never))
      .then(
        () => "taken",
        (error: unknown) => error,
      );
    if (taken.includes(name)) expect(answer).toBe("taken");
    else expect(answer).toBeInstanceOf(JobsError);
  });
});
