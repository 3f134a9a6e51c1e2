import { Injectable, Module } from "@nestjs/common";
import { JobHandler, JobInspector, JobQueue, JobsModule } from "nestjs-pg-jobs";
import { Gate, handler, reached } from "../support/handlers.js";
import { Bench, feature } from "../support/harness.js";

class Base {
  ran: string[] = [];

  @JobHandler("inherited")
  inherited(): void {
    this.ran.push("inherited");
  }
}

@Injectable()
class Derived extends Base {
  @JobHandler("own")
  own(): void {
    this.ran.push("own");
  }
}

describe("discovery of handlers", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  /** The results of one job of each kind, by a worker that imports these modules. */
  async function results(kinds: string[], imports: Parameters<typeof feature>[1]) {
    const app = await bench.app([bench.root(), JobsModule.forWorker({ imports: imports! })]);
    const jobs = app.get(JobQueue);
    const all: unknown[] = [];
    for (const kind of kinds) {
      const { id } = await jobs.enqueue(kind);
      all.push((await reached(bench, id, "succeeded")).result);
    }
    await app.close();
    return { all, app, ran: all.length };
  }

  it("finds methods in nested modules", async () => {
    const deep = feature([handler("nested.deep", () => "deep")]);
    const middle = feature([handler("nested.middle", () => "middle")], [deep]);
    const { all } = await results(["nested.deep", "nested.middle"], [feature([], [middle])]);
    expect(all).toEqual(["deep", "middle"]);
  });

  it("finds inherited methods, and runs them on the instance", async () => {
    const { app } = await results(["own", "inherited"], [feature([Derived])]);
    expect(app.get(Derived, { strict: false }).ran).toEqual(["own", "inherited"]);
  });

  it.each([
    ["an arrow function", () => new Derived()],
    [
      "a function",
      function make() {
        return new Derived();
      },
    ],
    ["an async function", async () => new Derived()],
  ])("finds methods of what useFactory makes: %s", async (_what, useFactory) => {
    const { ran } = await results(["own"], [feature([{ provide: "made", useFactory }])]);
    expect(ran).toBe(1);
  });

  it.each([
    ["useClass", { provide: "token", useClass: Derived }],
    ["useValue", { provide: "token", useValue: new Derived() }],
    ["a symbol as token", { provide: Symbol("token"), useFactory: () => new Derived() }],
  ])("finds methods behind %s", async (_what, provider) => {
    const { ran } = await results(["own"], [feature([provider])]);
    expect(ran).toBe(1);
  });

  it("takes an alias for what it is: the same provider again", async () => {
    const alias = { provide: "alias", useExisting: Derived };
    expect((await results(["own"], [feature([Derived, alias])])).ran).toBe(1);
  });

  it("takes a provider once that two modules export, and that a feature imports twice", async () => {
    const shared = feature([Derived]);
    @Module({ imports: [shared], exports: [shared] })
    class One {}
    @Module({ imports: [shared], exports: [shared] })
    class Two {}
    expect((await results(["own"], [One, Two, shared])).ran).toBe(1);
  });

  it("never touches a getter", async () => {
    let touched = 0;
    @Injectable()
    class WithGetter {
      get secret(): string {
        touched++;
        throw new Error("touched");
      }
      @JobHandler("beside-getter")
      run(): string {
        return "ran";
      }
    }
    const { all } = await results(["beside-getter"], [feature([WithGetter])]);
    expect(all).toEqual(["ran"]);
    expect(touched).toBe(0);
  });

  it("finds a method that is named by a symbol", async () => {
    const name = Symbol("run");
    @Injectable()
    class BySymbol {
      @JobHandler("by-symbol")
      [name](): string {
        return "ran";
      }
    }
    const { all } = await results(["by-symbol"], [feature([BySymbol])]);
    expect(all).toEqual(["ran"]);
  });

  it("finds methods of controllers, the kinds of names that trip up maps too", async () => {
    const { all } = await results(
      ["constructor", "__proto__", "toString"],
      [
        feature([
          handler("constructor", () => 1),
          handler("__proto__", () => 2),
          handler("toString", () => 3),
        ]),
      ],
    );
    expect(all).toEqual([1, 2, 3]);
  });

  it("runs nothing in an app that only enqueues, be its features imported or not", async () => {
    const gate = new Gate();
    const app = await bench.app([bench.root()]);
    const { id } = await app.get(JobQueue).enqueue("produced");
    // A worker proves that everything else is in order; only then is it certain that nobody took it before.
    expect(await bench.state(id)).toBe("queued");
    expect(await app.get(JobInspector).unknownKinds()).toContainEqual({
      queue: "default",
      kind: "produced",
    });
    const workers = await bench.sql(
      "select 1 from jobs.worker where kinds::text like '%produced%'",
    );
    expect(workers).toEqual([]);
    await bench.worker([handler("produced", () => gate.open())]);
    await gate.opened;
    expect((await reached(bench, id, "succeeded")).attempt).toBe(1);
  });
});
