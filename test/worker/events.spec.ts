import { jest } from "@jest/globals";
import { type INestApplicationContext, Logger } from "@nestjs/common";
import {
  type JobContext,
  JobQueue,
  OnEvent,
  type OnEventOptions,
  OptionsError,
  PayloadInvalidError,
  SchemaNotReadyError,
  UnknownSubscriptionError,
  defineEvent,
  fixed,
} from "nestjs-pg-jobs";
import { z } from "zod";
import { keep } from "../../libs/jobs/src/store/events/declared.js";
import type { NewSubscription } from "../../libs/jobs/src/store/events/subscriptions.js";
import { JobsWorkerModule } from "../../libs/jobs/src/jobs-worker.module.js";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

// What is published, who gets it, and what becomes of each delivery.

let bench: Bench;
const warned: unknown[][] = [];
beforeEach(async () => {
  warned.splice(0);
  for (const level of ["log", "warn"] as const)
    jest
      .spyOn(Logger.prototype, level)
      .mockImplementation((...line: unknown[]) => void warned.push(line));
  bench = await Bench.open();
});
afterEach(async () => {
  await bench.close();
  jest.restoreAllMocks();
});

const schema = z.object({ orderId: z.string() });
const OrderPlaced = defineEvent("order.placed", { payload: schema });
type Order = z.infer<typeof schema>;

function subscriber(
  options: OnEventOptions,
  body: (order: Order, job: JobContext) => unknown = () => undefined,
  event: Parameters<typeof OnEvent>[0] = OrderPlaced,
) {
  class Subscriber {
    get(order: Order, job: JobContext): unknown {
      return body(order, job);
    }
  }
  OnEvent(event, options)(
    Subscriber.prototype,
    "get",
    Object.getOwnPropertyDescriptor(Subscriber.prototype, "get")!,
  );
  return Subscriber;
}
const known = async (count: number) =>
  await until(
    async () => (await bench.sql("select from jobs.subscription")).length === count && true,
    { what: `${count} subscribers` },
  );
/** Its subscribers are declared, and kept: that comes again in a minute only. */
const ready = async (app: INestApplicationContext) =>
  await until(() => app.get(JobsWorkerModule).worker!.state === "working", { what: "it is ready" });
/** As the code of a worker declares it. */
const declared = (kind: string): NewSubscription => ({
  event: "order.placed",
  kind,
  queue: "default",
  priority: 0,
  routingKeys: null,
});
const states = async () => {
  const rows = await bench.sql<{ kind: string; state: string }>(
    "select kind, state from jobs.job_status order by kind",
  );
  return rows.map(({ kind, state }) => `${kind} ${state}`);
};

describe("an event", () => {
  it("is delivered to each subscriber of each service, as a job of its own", async () => {
    const got: string[] = [];
    const got1 =
      (name: string) =>
      ({ orderId }: Order) =>
        void got.push(`${name} ${orderId}`);
    await bench.worker([
      subscriber({ name: "bill" }, got1("bill")),
      subscriber({ name: "mail" }, got1("mail")),
    ]);
    await bench.worker([subscriber({ name: "ship", queue: "depot", priority: 3 }, got1("ship"))], {
      service: "depot",
    });
    await known(3);
    const jobs = await bench.producer();
    const deliveries = await jobs.publish(OrderPlaced, { orderId: "7" });
    expect(deliveries).toEqual([
      { id: expect.any(String), subscriber: "bill", queue: "default", deduplicated: false },
      { id: expect.any(String), subscriber: "mail", queue: "default", deduplicated: false },
      { id: expect.any(String), subscriber: "ship", queue: "depot", deduplicated: false },
    ]);
    await until(() => got.length === 3, { what: "all have it" });
    expect(got.toSorted()).toEqual(["bill 7", "mail 7", "ship 7"]);
    await until(async () => (await bench.states()).succeeded === 3, { what: "all are done" });
  });

  it("each delivery fails, is retried and dies on its own", async () => {
    const attempts: string[] = [];
    await bench.worker([
      subscriber({ name: "bill", attempts: 3, backoff: fixed(20) }, (_, job) => {
        attempts.push(`bill ${job.attempt}`);
        if (job.attempt < 3) throw new Error("not yet");
      }),
      subscriber({ name: "mail", attempts: 1 }, () => {
        attempts.push("mail");
        throw new Error("never");
      }),
      subscriber({ name: "ship" }, () => void attempts.push("ship")),
    ]);
    await known(3);
    const jobs = await bench.producer();
    const [bill, mail, ship] = await jobs.publish(OrderPlaced, { orderId: "7" });
    await reached(bench, bill!.id, "succeeded", { attempt: 3 });
    expect(await reached(bench, mail!.id, "dead")).toMatchObject({ last_error: "never" });
    await reached(bench, ship!.id, "succeeded");
    expect(attempts.toSorted()).toEqual(["bill 1", "bill 2", "bill 3", "mail", "ship"]);
    // A dead one is sent again alone.
    expect(await jobs.requeue(mail!.id)).toBe("queued");
  });

  it("goes by routing keys", async () => {
    await bench.worker([
      subscriber({ name: "all" }),
      subscriber({ name: "ch", routingKey: "CH" }),
      subscriber({ name: "north", routingKey: ["NO", "SE"] }),
    ]);
    await known(3);
    const jobs = await bench.producer();
    const of = async (routingKey?: string) => {
      const options = routingKey === undefined ? undefined : { routingKey };
      const made = await jobs.publish(OrderPlaced, { orderId: "7" }, options);
      return made.map((one) => one.subscriber);
    };
    expect(await of()).toEqual(["all"]);
    expect(await of("CH")).toEqual(["all", "ch"]);
    expect(await of("SE")).toEqual(["all", "north"]);
    expect(await of("se")).toEqual(["all"]);
  });

  it("tells its handler its name and routing key, whatever way its delivery was made", async () => {
    const got: unknown[] = [];
    const says = (order: Order, job: JobContext) =>
      void got.push([job.kind, order.orderId, job.event, job.schedule]);
    const app = await bench.worker([
      subscriber({ name: "bill" }, says),
      subscriber({ name: "mail", queue: "other", routingKey: ["CH", "NO"] }, says),
      handler("task", (_, job: JobContext) => void got.push(job.event)),
    ]);
    await known(2);
    const jobs = app.get(JobQueue);
    const told = async (event: object, ways: object[]) => {
      for (const [n, options] of ways.entries()) {
        const orderId = String(n);
        const made = await jobs.publish(OrderPlaced, { orderId }, options);
        for (const { id } of made) await reached(bench, id, "succeeded");
        const expected = made.map(({ subscriber: kind }) => [kind, orderId, event, null]);
        const found = got.splice(0).toSorted((a, b) => (String(a) < String(b) ? -1 : 1));
        expect([options, found]).toEqual([options, expected]);
      }
    };
    const ways = [{}, { delay: 1 }, { key: "a" }, { key: "b", window: "1s" }];
    await told({ name: "order.placed" }, ways);
    await told(
      { name: "order.placed", routingKey: "NO" },
      [{}, { delay: 1 }, { key: "a" }, { key: "c", onConflict: "replace" }].map((way) => ({
        ...way,
        routingKey: "NO",
      })),
    );
    const { id } = await jobs.enqueue("task", {});
    await reached(bench, id, "succeeded");
    expect(got).toEqual([undefined]);
  });

  it("that takes the place of one that waits brings its routing key with its payload", async () => {
    const got: unknown[] = [];
    const Bill = subscriber(
      { name: "bill" },
      ({ orderId }, job) => void got.push([orderId, job.event]),
    );
    await bench.worker([Bill]);
    await known(1);
    await bench.closeApps();
    const jobs = await bench.producer();
    const publish = async (key: string, orderId: string, routingKey: string, rest = {}) =>
      await jobs.publish(OrderPlaced, { orderId }, { key, routingKey, ...rest });
    for (const onConflict of ["keep", "replace-payload", "replace-time", "replace"] as const) {
      await publish(onConflict, "1", "CH");
      await publish(onConflict, "2", "NO", { onConflict });
    }
    const client = await bench.client();
    await client.query("begin");
    const options = { key: "replace", routingKey: "SE", onConflict: "replace-payload" } as const;
    await jobs.in(client).publish(OrderPlaced, { orderId: "3" }, options);
    await client.query("rollback");
    await bench.worker([Bill]);
    await until(() => got.length === 4, { what: "it has all" });
    const first = ["1", { name: "order.placed", routingKey: "CH" }];
    const second = ["2", { name: "order.placed", routingKey: "NO" }];
    expect(got).toEqual([first, second, first, second]);
  });

  it("is delivered again as what it was", async () => {
    let fails = true;
    const events: unknown[] = [];
    const app = await bench.worker([
      subscriber({ name: "bill", attempts: 1 }, (_, job) => {
        events.push(job.event);
        if (fails) throw new Error("not yet");
      }),
    ]);
    await known(1);
    const jobs = app.get(JobQueue);
    const [one] = await jobs.publish(OrderPlaced, { orderId: "7" }, { routingKey: "CH" });
    await reached(bench, one!.id, "dead");
    fails = false;
    await jobs.requeue(one!.id);
    await reached(bench, one!.id, "succeeded");
    expect(events).toEqual([1, 2].map(() => ({ name: "order.placed", routingKey: "CH" })));
  });

  it("goes to some of its subscribers when they are named", async () => {
    await bench.worker([
      subscriber({ name: "bill" }),
      subscriber({ name: "mail" }),
      subscriber({ name: "ch", routingKey: "CH" }),
    ]);
    await known(3);
    const jobs = await bench.producer();
    const of = async (to: string | string[], routingKey = "CH") =>
      (await jobs.publish(OrderPlaced, { orderId: "7" }, { to, routingKey })).map(
        (one) => one.subscriber,
      );
    expect(await of("bill")).toEqual(["bill"]);
    expect(await of(["mail", "ch", "mail"])).toEqual(["ch", "mail"]);
    expect(await of(["mail", "ch"], "NO")).toEqual(["mail"]);
    const unknown = of(["mail", "bil"]);
    await expect(unknown).rejects.toThrow(UnknownSubscriptionError);
    await expect(unknown).rejects.toThrow(/found "bil"; did you mean "bill"\?/);
  });

  it("in a transaction exists with it, or not at all", async () => {
    await bench.worker([
      subscriber({ name: "bill" }),
      subscriber({ name: "mail", queue: "other" }),
    ]);
    await known(2);
    const jobs = await bench.producer();
    const client = await bench.client();
    for (const end of ["rollback", "commit"]) {
      await client.query("begin");
      expect(await jobs.in(client).publish(OrderPlaced, { orderId: end })).toHaveLength(2);
      expect(await states()).toEqual([]);
      await client.query(end);
      await until(async () => (await states()).length === (end === "commit" ? 2 : 0), {
        what: `what a ${end} leaves`,
      });
    }
    await until(async () => (await bench.states()).succeeded === 2, { what: "both have it" });
  });

  it("nobody has subscribed to makes nothing", async () => {
    const jobs = await bench.producer();
    expect(await jobs.publish(OrderPlaced, { orderId: "7" })).toEqual([]);
    expect(await jobs.publish("unheard.of", { any: 1 })).toEqual([]);
    expect(await states()).toEqual([]);
    expect(await jobs.subscriptions()).toEqual([]);
  });

  it("with a key is delivered once to each", async () => {
    const app = await bench.worker([subscriber({ name: "bill" }), subscriber({ name: "mail" })]);
    await known(2);
    const jobs = app.get(JobQueue);
    const options = { key: "7", window: "1h" };
    const first = await jobs.publish(OrderPlaced, { orderId: "7" }, options);
    await until(async () => (await bench.states()).succeeded === 2, { what: "both have it" });
    const again = await jobs.publish(OrderPlaced, { orderId: "7" }, options);
    expect(again).toEqual(first.map((one) => ({ ...one, deduplicated: true })));
  });

  it("with a delay is delivered later", async () => {
    const app = await bench.worker([subscriber({ name: "bill" })]);
    await known(1);
    const jobs = app.get(JobQueue);
    const [one] = await jobs.publish(OrderPlaced, { orderId: "7" }, { delay: "1h" });
    expect((await jobs.get(one!.id))!.state).toBe("queued");
  });
});

describe("subscribers", () => {
  it("get nothing from before their first start, and all from while they were away", async () => {
    const jobs = await bench.producer();
    await jobs.publish(OrderPlaced, { orderId: "early" });
    const got: string[] = [];
    const Bill = subscriber({ name: "bill" }, ({ orderId }) => void got.push(orderId));
    const first = await bench.worker([Bill]);
    await known(1);
    await first.close();
    await jobs.publish(OrderPlaced, { orderId: "away" });
    expect(await states()).toEqual(["bill queued"]);
    await bench.worker([Bill]);
    await until(() => got.length > 0, { what: "it has it" });
    expect(got).toEqual(["away"]);
  });

  it("are listed, with what the worker that started last said of them", async () => {
    await bench.worker([subscriber({ name: "bill", routingKey: ["b", "a"] })], { service: "one" });
    await known(1);
    const two = await bench.worker([subscriber({ name: "bill", queue: "other" })], {
      service: "two",
    });
    const jobs = two.get(JobQueue);
    await until(async () => (await jobs.subscriptions())[0]!.queue === "other", {
      what: "the second one's",
    });
    expect(await jobs.subscriptions(OrderPlaced)).toEqual([
      {
        event: "order.placed",
        kind: "bill",
        queue: "other",
        routingKeys: null,
        service: "two",
        declaredAt: expect.any(Date),
        orphanedAt: null,
        retiredAt: null,
      },
    ]);
    expect(await jobs.subscriptions("another")).toEqual([]);
    expect(warned).toContainEqual([
      "A subscriber of the same name is taken over",
      { event: "order.placed", subscriber: "bill", service: "two", before: "one" },
    ]);
  });

  it("that nobody declares any more are told of, then retired, by their own service only", async () => {
    const front = bench.session();
    const shop = [subscriber({ name: "bill" }), subscriber({ name: "mail" })];
    await ready(await bench.worker(shop, { service: "shop" }));
    const left = [declared("mail")];
    const bill = { event: "order.placed", kind: "bill", service: "shop" };
    expect(await keep(front, "shop", left, true)).toEqual([]);
    await bench.sql("update jobs.subscription set declared_at = now() - interval '6 minutes'");
    expect(await keep(front, "another", [], true)).toEqual([]);
    expect(await keep(front, "shop", left, false)).toEqual([{ ...bill, retired: false }]);
    // It still gets what is published, and is told of once.
    const jobs = await bench.producer();
    expect(await jobs.publish(OrderPlaced, { orderId: "1" })).toHaveLength(2);
    expect(await keep(front, "shop", left, true)).toEqual([]);
    await bench.sql(
      "update jobs.subscription set orphaned_at = orphaned_at - interval '11 minutes'",
    );
    // A process that has only just begun may be the first of them that is back.
    expect(await keep(front, "shop", left, false)).toEqual([]);
    expect(await keep(front, "shop", left, true)).toEqual([{ ...bill, retired: true }]);
    expect(
      (await jobs.publish(OrderPlaced, { orderId: "2" })).map((one) => one.subscriber),
    ).toEqual(["mail"]);
    // A process that had it all the time, and was cut off, has it again.
    expect(await keep(front, "shop", [...left, declared("bill")], false)).toEqual([]);
    await until(async () => (await jobs.publish(OrderPlaced, { orderId: "3" })).length === 2, {
      what: "it is back",
    });
  });

  it("that have moved to another service stay while it declares them, whoever did it last", async () => {
    const front = bench.session();
    for (const service of ["new", "old"]) {
      await ready(await bench.worker([subscriber({ name: "bill" })], { service }));
    }
    await bench.sql("update jobs.subscription set declared_at = now() - interval '6 minutes'");
    expect(await keep(front, "new", [declared("bill")], true)).toEqual([]);
    expect(await keep(front, "old", [], true)).toEqual([]);
  });

  it("of a service that is gone for a day are told of, once, and get what is published", async () => {
    const front = bench.session();
    await ready(await bench.worker([subscriber({ name: "bill" })], { service: "shop" }));
    await bench.closeApps();
    const jobs = await bench.producer();
    const age = async (by: string) =>
      await bench.sql("update jobs.subscription set declared_at = now() - $1::interval", [by]);
    await age("23 hours");
    expect(await keep(front, "depot", [], true)).toEqual([]);
    await age("25 hours");
    // All were away, and this one is back before its own service.
    expect(await keep(front, "depot", [], false)).toEqual([]);
    expect((await jobs.subscriptions())[0]!.orphanedAt).toBeNull();
    const told = await Promise.all(
      ["depot", "mill"].map((one) => keep(bench.session(), one, [], true)),
    );
    expect(told.flat()).toEqual([
      { event: "order.placed", kind: "bill", service: "shop", retired: false },
    ]);
    const [one] = await jobs.subscriptions();
    expect(one).toMatchObject({ orphanedAt: expect.any(Date), retiredAt: null });
    // Days later strangers neither say it again nor retire it.
    await bench.sql("update jobs.subscription set orphaned_at = now() - interval '3 days'");
    expect(await keep(front, "depot", [], true)).toEqual([]);
    expect(await jobs.publish(OrderPlaced, { orderId: "7" })).toHaveLength(1);
    await bench.worker([subscriber({ name: "bill" })], { service: "shop" });
    await until(async () => (await jobs.subscriptions())[0]!.orphanedAt === null, {
      what: "its service is back",
    });
  });

  it("are taken away by a call, and come back with a worker whose code has them", async () => {
    const front = bench.session();
    await bench.worker(
      [subscriber({ name: "bill", routingKey: "CH" }), subscriber({ name: "mail" })],
      {
        service: "shop",
      },
    );
    await known(2);
    await bench.closeApps();
    const jobs = await bench.producer();
    const options = { routingKey: "CH" };
    await jobs.publish(OrderPlaced, { orderId: "waits" }, options);
    const removed = await jobs.unsubscribe(OrderPlaced, "bill");
    expect(removed).toMatchObject({
      event: "order.placed",
      kind: "bill",
      routingKeys: ["CH"],
      service: "shop",
    });
    const names = async () => (await jobs.subscriptions()).map(({ kind }) => kind);
    expect(await names()).toEqual(["mail"]);
    expect(await jobs.publish(OrderPlaced, { orderId: "7" }, options)).toHaveLength(1);
    // What waited for it waits on.
    expect(await states()).toEqual(["bill queued", "mail queued", "mail queued"]);
    await keep(
      front,
      "shop",
      [{ ...declared("bill"), routingKeys: ["CH"] }, declared("mail")],
      false,
    );
    expect(await names()).toEqual(["bill", "mail"]);
    expect((await jobs.subscriptions())[0]!.routingKeys).toEqual(["CH"]);
    expect(await jobs.publish(OrderPlaced, { orderId: "8" }, options)).toHaveLength(2);
  });

  it("of two services are two, though class and method are called the same", async () => {
    const got: string[] = [];
    const [first, second] = ["shop", "depot"].map((service) => {
      class Orders {
        placed(): void {
          got.push(service);
        }
      }
      OnEvent("order.placed")(
        Orders.prototype,
        "placed",
        Object.getOwnPropertyDescriptor(Orders.prototype, "placed")!,
      );
      return Orders;
    });
    const app = await bench.worker([first!], { service: "shop" });
    await bench.worker([second!], { service: "depot" });
    await known(2);
    const made = await app.get(JobQueue).publish("order.placed", {});
    expect(made.map((one) => one.subscriber)).toEqual([
      "order.placed>depot:Orders.placed",
      "order.placed>shop:Orders.placed",
    ]);
    await until(() => got.length === 2, { what: "both have it" });
    expect(got.toSorted()).toEqual(["depot", "shop"]);
  });

  it("of a worker are there all at once", async () => {
    const client = await bench.client();
    await client.query("begin");
    await client.query(
      `insert into ${bench.schema}.subscription (event, kind, queue, priority, service) values ('order.placed', 'mail', 'q', 0, 's')`,
    );
    await bench.worker(["bill", "mail", "ship"].map((name) => subscriber({ name })));
    const waits = async () =>
      (
        await bench.sql(
          "select from pg_stat_activity where wait_event_type = 'Lock' and query ~ $1",
          [`"${bench.schema}".subscription`],
        )
      ).length > 0;
    await until(waits, { what: "it waits for what somebody else has declared" });
    expect(await bench.sql("select from jobs.subscription")).toEqual([]);
    await client.query("rollback");
    await known(3);
  });

  it("are there before their worker has found its queues", async () => {
    const client = await bench.client();
    await client.query("begin");
    await client.query(`insert into ${bench.schema}.queue (name) values ('default')`);
    const app = await bench.worker([subscriber({ name: "bill" })]);
    await known(1);
    expect(app.get(JobsWorkerModule).worker!.state).toBe("waiting");
    await client.query("rollback");
  });

  it("are all there once their worker is ready", async () => {
    const names = Array.from({ length: 30 }, (_, n) => `s${n}`);
    const app = await bench.worker(names.map((name) => subscriber({ name })));
    const jobs = app.get(JobQueue);
    await ready(app);
    expect(await jobs.publish(OrderPlaced, { orderId: "7" })).toHaveLength(30);
  });
});

describe("what does not fit", () => {
  it.each([
    [{ name: "" }, /name: expected/],
    [{ routingKey: "" }, /routingKey: expected one of 1\.\.256 characters/],
    [{ routingKey: [] }, /routingKey: expected/],
    [{ routingKey: 7 }, /routingKey: expected/],
    [{ rootingKey: "a" }, /rootingKey: unknown option, did you mean routingKey\?/],
    [{ attempts: 0 }, /attempts: expected/],
    [{ priority: 101 }, /priority: expected/],
  ])("%j fails the boot", async (options, found) => {
    await expect(bench.worker([subscriber(options as never)])).rejects.toThrow(found);
  });

  it("a method with two marks fails the boot: one of them would be lost", async () => {
    const other = defineEvent("order.cancelled");
    const Both = subscriber({ name: "both" });
    OnEvent(other)(Both.prototype, "get", Object.getOwnPropertyDescriptor(Both.prototype, "get")!);
    await expect(bench.worker([Both])).rejects.toThrow(
      /Subscriber\.get: expected one of @JobHandler, @ScheduledJob and @OnEvent, found several/,
    );
  });

  it.each(["", 0, null, Number.NaN, {}])("subscriptions(%j)", async (event) => {
    const jobs = await bench.producer();
    await expect(jobs.subscriptions(event as never)).rejects.toThrow(OptionsError);
  });

  it("a name that is too long, or another handler's", async () => {
    const long = subscriber({}, undefined, "x".repeat(40));
    // `${event}>${service}:Subscriber.get`
    await bench.worker([long], { service: "eight888" });
    await expect(bench.worker([long], { service: "nine99999" })).rejects.toThrow(
      /name: expected one for this subscriber, since event, service and method make "x+>nine99999:Subscriber.get" of 65 characters, and at most 64 fit; give it a name, or forWorker\(\) a shorter service/,
    );
    await expect(
      bench.worker([subscriber({ name: "bill" }), handler("bill", () => {})]),
    ).rejects.toThrow(/"bill" has a handler already/);
  });

  it("unsubscribe of what is not there says what is", async () => {
    await bench.worker([subscriber({ name: "billing" })]);
    await known(1);
    const jobs = await bench.producer();
    const refused = async (event: unknown, name: unknown) =>
      await jobs.unsubscribe(event as never, name as never).then(
        () => undefined,
        (error: Error) => error,
      );
    const unknown = await refused(OrderPlaced, "biling");
    expect(unknown).toBeInstanceOf(UnknownSubscriptionError);
    expect(unknown).toMatchObject({
      code: "SUBSCRIPTION_UNKNOWN",
      message: expect.stringMatching(/"order.placed", found "biling"; did you mean "billing"\?/),
    });
    expect((await refused("order.paid", "billing"))!.message).toMatch(
      /did you mean "billing" of "order.placed"\?/,
    );
    expect((await refused("order.paid", "x"))!.message).toMatch(/found "x"\. jobs\.subscriptions/);
    for (const args of [
      [OrderPlaced],
      [OrderPlaced, ""],
      [OrderPlaced, 7],
      ["", "billing"],
    ] as const)
      expect(await refused(...(args as unknown as [unknown, unknown]))).toBeInstanceOf(
        OptionsError,
      );
    expect(await jobs.subscriptions()).toHaveLength(1);
  });

  it("what is published is checked before anything is written", async () => {
    await bench.worker([subscriber({ name: "bill" })]);
    await known(1);
    const jobs = await bench.producer();
    await expect(jobs.publish(OrderPlaced, { orderId: 7 } as never)).rejects.toThrow(
      PayloadInvalidError,
    );
    for (const options of [
      { routingKey: "" },
      { routingkey: "a" },
      { delay: "soon" },
      { window: "1h" },
      { delay: 1, at: new Date() },
      7,
    ])
      await expect(jobs.publish(OrderPlaced, { orderId: "7" }, options as never)).rejects.toThrow(
        OptionsError,
      );
    const refused = async (options: object) =>
      await jobs.publish(OrderPlaced, { orderId: "7" }, options).then(
        () => "nothing",
        (error: Error) => error.message,
      );
    for (const [options, problem] of [
      [{ window: "1h" }, "window: expected a key beside it, found none"],
      [{ key: "a", window: 0 }, /window: expected a duration of at least/],
      [{ onConflict: "keep" }, "onConflict: expected a key beside it, found none"],
      [{ key: "a", onConflict: "overwrite" }, /onConflict: expected 'keep' or/],
      [{ key: "" }, /key: expected 1\.\.512 well-formed characters/],
      [{ delay: "soon" }, /delay: expected/],
      [{ at: "today" }, /at: expected a valid Date/],
      [{ delay: 1, at: new Date() }, "delay, at: expected at most one of the two, found both"],
      [{ queue: "q" }, /queue: unknown option, known are routingKey, to, delay/],
      [{ priority: 1, rootingKey: "a" }, /rootingKey: unknown option, did you mean routingKey\?/],
      [{ to: [] }, "to: expected the name of a subscriber, or a list of 1..1000, found an array"],
      [{ to: "" }, /to: expected the name of a subscriber/],
    ] as const) {
      const message = await refused(options);
      expect(message).toMatch(/^Invalid options of publish "order\.placed":\n/);
      expect(message).toMatch(problem);
    }
    expect(await refused({ routingKey: "", delay: "soon" })).toMatch(/routingKey: .*\n.*delay: /);
    expect(() => defineEvent("")).toThrow(OptionsError);
    expect(() => defineEvent("a", { schema } as never)).toThrow(/did you mean|unknown option/);
    expect(await states()).toEqual([]);
  });
});

it("on a schema without them says so", async () => {
  await bench.sql("drop table jobs.subscription");
  await bench.sql("delete from jobs.migration where version >= 6");
  const jobs = await bench.producer();
  await expect(jobs.publish(OrderPlaced, { orderId: "7" })).rejects.toThrow(SchemaNotReadyError);
  await expect(jobs.subscriptions()).rejects.toThrow(SchemaNotReadyError);
});

it("a worker with subscribers waits for a schema that has them, and runs nothing without", async () => {
  const got: string[] = [];
  const newer = await bench.sql("select * from jobs.migration where version >= 6");
  await bench.sql("delete from jobs.migration where version >= 6");
  const jobs = await bench.producer();
  const { id } = await jobs.enqueue("task", {});
  await bench.worker([
    subscriber({ name: "billing" }, ({ orderId }) => void got.push(orderId)),
    handler("task", () => undefined),
  ]);
  const says = () => warned.some(([line]) => /schema/i.test(String(line)));
  await until(says, { what: "it says so" });
  expect(await bench.state(id)).toBe("queued");
  await bench.sql(
    "insert into jobs.migration select * from json_populate_recordset(null::jobs.migration, $1)",
    [JSON.stringify(newer)],
  );
  await reached(bench, id, "succeeded");
  await known(1);
  await jobs.publish(OrderPlaced, { orderId: "7" });
  await until(() => got.length === 1, { what: "the delivery" });
});
