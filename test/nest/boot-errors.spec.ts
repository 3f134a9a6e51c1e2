import {
  Controller,
  Injectable,
  Module,
  type OnModuleInit,
  type Provider,
  Scope,
  UseGuards,
} from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import {
  JobHandler,
  JobQueue,
  type JobsOptions,
  JobsModule,
  OptionsError,
  Payload,
  defineJob,
} from "nestjs-pg-jobs";
import { handler, reached } from "../support/handlers.js";
import { Bench, feature } from "../support/harness.js";
import { until } from "../support/until.js";

class Enhancer {
  canActivate = () => true;
}

describe("what fails the boot", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  /** The problems that a boot ends with. */
  async function problems(boot: () => unknown): Promise<readonly string[]> {
    const error: unknown = await Promise.resolve()
      .then(boot)
      .then(
        () => new Error("it booted"),
        (reason: unknown) => reason,
      );
    if (error instanceof OptionsError) return error.problems;
    throw error;
  }
  const boot = async (providers: Provider[], worker = {}) => await bench.worker(providers, worker);

  it("a handler outside the imports of forWorker: says where to add its module", async () => {
    @Module({ providers: [handler("outside", () => {})] })
    class MailModule {}
    const found = await problems(() =>
      bench.app([bench.root(), MailModule, JobsModule.forWorker({ imports: [] })]),
    );
    expect(found).toEqual([
      expect.stringMatching(/Handlers\.run: .*forWorker\(\{ imports: \[MailModule\] \}\)/),
    ]);
  });

  it("two handlers of one kind: names both", async () => {
    @Injectable()
    class First {
      @JobHandler("twice")
      one(): void {}
    }
    @Injectable()
    class Second {
      @JobHandler(defineJob("twice"))
      two(): void {}
    }
    expect(await problems(() => boot([First, Second]))).toEqual([
      'Second.two: "twice" has a handler already, First.one; a kind has one',
    ]);
  });

  it("a handler whose queue is not served: says which to add", async () => {
    const Mail = defineJob("mail", { queue: "mail" });
    expect(
      await problems(() => boot([handler(Mail, () => {})], { queues: { other: {} } })),
    ).toEqual([expect.stringContaining('its queue "mail" is not served; add it to forWorker')]);
  });

  it.each([
    ["in the definition", "mial", "mail"],
    ["in forWorker", "mail", "mial"],
  ])("a queue that is misspelt %s: says which was meant", async (_where, own, served) => {
    const Mail = defineJob("mail", { queue: own });
    const queues = { default: {}, [served]: {} };
    expect(await problems(() => boot([handler(Mail, () => {})], { queues }))).toEqual([
      `Handlers.run: its queue "${own}" is not served; did you mean "${served}", which is? If not, add it to forWorker({ queues: { "${own}": {} } })`,
    ]);
  });

  it("a list of queues: shows how to write it", async () => {
    expect(
      await problems(() => JobsModule.forWorker({ imports: [], queues: ["mail"] as never })),
    ).toEqual([
      "queues: expected an object such as { mail: {} }: names and their options, found an array",
    ]);
  });

  it("handlers, queues and connections: what is wrong with them comes in one message, of all workers", async () => {
    @Injectable()
    class Typo {
      @JobHandler("typo", { atempts: 3 } as object)
      run(): void {}
    }
    const Mail = defineJob("mail", { queue: "mail" });
    @Module({ providers: [handler("outside", () => {})] })
    class MailModule {}
    const found = await problems(() =>
      bench.app([
        bench.root({ connections: 2 }),
        MailModule,
        JobsModule.forWorker({ imports: [feature([handler(Mail, () => {})])], queues: { a: {} } }),
        JobsModule.forWorker({ imports: [feature([Typo])] }),
      ]),
    );
    expect(found).toEqual([
      expect.stringMatching(/^Handlers\.run: its module MailModule is not imported/),
      expect.stringMatching(/^Handlers\.run: its queue "mail" is not served/),
      expect.stringMatching(/^Typo\.run: atempts: unknown option, did you mean attempts\?/),
      expect.stringMatching(/^connections: expected at least \d+/),
    ]);
  });

  it("two workers that need more connections than the app may open", async () => {
    const two = async (options: Partial<JobsOptions>) =>
      await bench.app([
        bench.root(options),
        JobsModule.forWorker({ imports: [feature([handler("one", () => {})])] }),
        JobsModule.forWorker({ imports: [feature([handler("two", () => {})])] }),
      ]);
    expect(await problems(() => two({ connections: 8 }))).toEqual([
      "connections: expected at least 9 for 2 workers, found 8; raise it in forRoot, or give all imports and queues to one forWorker()",
    ]);
    expect(await problems(() => two({ notify: false, connections: 6 }))).toEqual([
      expect.stringMatching(/^connections: expected at least 7 for 2 workers, found 6/),
    ]);
    const app = await two({ connections: 9 });
    for (const kind of ["one", "two"]) {
      const { id } = await app.get(JobQueue).enqueue(kind);
      await reached(bench, id, "succeeded");
    }
    await app.close();
  });

  it("forWorker without forRoot: says what to import", async () => {
    const worker = JobsModule.forWorker({ imports: [feature([handler("one", () => {})])] });
    expect(await problems(() => bench.app([worker]))).toEqual([
      "JobsModule.forRoot: expected in the same app, found none; import JobsModule.forRoot({ connection: { url } }) beside forWorker",
    ]);
  });

  it.each([
    [{}, ["options: expected exactly one of useFactory, useClass, useExisting, found none"]],
    [undefined, ["options: expected an object, found undefined"]],
    [
      { useFactroy: () => ({}) },
      [
        "useFactroy: unknown option, did you mean useFactory?",
        "options: expected exactly one of useFactory, useClass, useExisting, found none",
      ],
    ],
    [
      { useFactory: { url: "x" }, inject: "CONFIG" },
      [
        "useFactory: expected a function, found an object",
        'inject: expected a list, found "CONFIG"',
      ],
    ],
    [
      { useFactory: () => ({}), useClass: Enhancer },
      [
        "options: expected exactly one of useFactory, useClass, useExisting, found useFactory and useClass",
      ],
    ],
  ])("bad options of forRootAsync: %p", async (options, expected) => {
    expect(await problems(() => JobsModule.forRootAsync(options as never))).toEqual(expected);
  });

  it("two forRoot in one app: each would open its own connections", async () => {
    const roots = [bench.root(), bench.root()];
    const workers = [handler("one", () => {}), handler("two", () => {})].map((one) =>
      JobsModule.forWorker({ imports: [feature([one])] }),
    );
    for (const imports of [roots, [...roots, ...workers]])
      expect(await problems(() => bench.app(imports))).toEqual([
        "JobsModule.forRoot: expected one in an app, found 2; it is global: import it once, in the root module",
      ]);
  });

  it("bad options of handlers: all of them in one message, with the right name", async () => {
    @Injectable()
    class Typos {
      @JobHandler("a", { concurency: 3, attempts: 0 } as object)
      a(): void {}
      @JobHandler("b", { timeout: "5 parsecs" })
      b(): void {}
      @JobHandler("", {})
      c(): void {}
    }
    expect(await problems(() => boot([Typos]))).toEqual([
      "Typos.a: concurency: unknown option, did you mean concurrency?",
      expect.stringMatching(/^Typos\.a: attempts: expected an integer 1\.\.1000, found 0/),
      expect.stringMatching(/^Typos\.b: timeout: expected .*"5 parsecs"/),
      expect.stringMatching(/^Typos\.c: kind: expected 1\.\.64 characters/),
    ]);
  });

  it("bad options of forWorker: all of them in one message", async () => {
    const found = await problems(() =>
      JobsModule.forWorker({
        imports: [],
        leese: "30s",
        poll: "1ms",
        queues: { mail: { concurency: 1, prefetch: 501 } },
      } as never),
    );
    expect(found).toEqual([
      expect.stringMatching(/leese: unknown option, did you mean lease\?/),
      expect.stringMatching(/queues\.mail\.concurency: .*did you mean concurrency\?/),
      expect.stringMatching(/queues\.mail\.prefetch: expected an integer 0\.\.500/),
      expect.stringMatching(/poll: expected a duration of 100\.\.60000 ms/),
    ]);
  });

  it("bad options of forRoot: all of them in one message, and no secret in it", async () => {
    const connection = { url: "http://user:hunter2@host/db" };
    const found = await problems(() =>
      bench.app([JobsModule.forRoot({ connection, schemma: "x", migrate: "onstart" } as never)]),
    );
    expect(found).toHaveLength(3);
    expect(found.join()).toMatch(/schemma: unknown option, did you mean schema\?/);
    expect(found.join()).toMatch(/did you mean 'on-start'\?/);
    expect(found.join()).not.toContain("hunter2");
  });

  it("guards on a method that is named by a symbol: Nest cannot run them", async () => {
    const name = Symbol("run");
    @Injectable()
    class BySymbol {
      @UseGuards(Enhancer)
      @JobHandler("by-symbol")
      [name](): void {}
    }
    expect(await problems(() => boot([BySymbol]))).toEqual([
      expect.stringMatching(/^BySymbol\.Symbol\(run\): guards, .* need a named method/),
    ]);
  });

  it("guards on what a factory makes: Nest would leave them out", async () => {
    class Made {
      @UseGuards(Enhancer)
      @JobHandler("made")
      run(): void {}
    }
    expect(await problems(() => boot([{ provide: "made", useFactory: () => new Made() }]))).toEqual(
      [expect.stringMatching(/^Made\.run: guards, .* found a factory or value/)],
    );
  });

  it("a guard on a controller's method: Nest would leave it out", async () => {
    @Controller()
    class Guarded {
      @UseGuards(Enhancer)
      @JobHandler("controller")
      run(): void {}
    }
    @Module({ controllers: [Guarded] })
    class Controllers {}
    expect(
      await problems(() =>
        bench.app([bench.root(), JobsModule.forWorker({ imports: [Controllers] })]),
      ),
    ).toEqual([
      "Guarded.run: Enhancer: expected on a provider, found on a controller; move the handler to a provider",
    ]);
  });

  it("pipes of a parameter that are none: Nest would leave them out", async () => {
    @Injectable()
    class Piped {
      @JobHandler("undefined")
      missing(@Payload(undefined as never) payload: object): object {
        return payload;
      }
      @JobHandler("object")
      object(@Payload({} as never) payload: object): object {
        return payload;
      }
      @JobHandler("class")
      class(@Payload(Enhancer as never) payload: object): object {
        return payload;
      }
    }
    expect(await problems(() => boot([Piped]))).toEqual([
      expect.stringMatching(/^Piped\.missing: .*found undefined; do two files import each other/),
      expect.stringMatching(/^Piped\.object: expected .* transform\(\), found none in it$/),
      expect.stringMatching(/^Piped\.class: Enhancer: expected a class with transform\(\)/),
    ]);
  });

  it("globalEnhancers with a guard of the app that is made for each request", async () => {
    @Module({ providers: [{ provide: APP_GUARD, useClass: Enhancer, scope: Scope.REQUEST }] })
    class Guards {}
    const imports = [feature([handler("guarded", () => {})])];
    const found = await problems(() =>
      bench.app([bench.root(), Guards, JobsModule.forWorker({ imports, globalEnhancers: true })]),
    );
    expect(found).toEqual([
      expect.stringMatching(/^Handlers\.run: globalEnhancers: .*request-scoped/),
    ]);
  });

  it("a mark where no handler can be: a static method", async () => {
    @Injectable()
    class Static {
      @JobHandler("static")
      static run(): void {}
    }
    expect(await problems(() => boot([Static]))).toEqual([
      expect.stringMatching(/^Static\.run: a static method/),
    ]);
  });

  describe("with migrate: 'on-start'", () => {
    const migrated = async () =>
      (
        await bench.sql<{ there: boolean }>("select to_regnamespace($1) is not null as there", [
          "t_refused",
        ])
      )[0]!.there;
    afterEach(async () => void (await bench.sql("drop schema if exists t_refused cascade")));

    it("what is wrong with handlers is found before the database is asked for anything", async () => {
      const { proxy, url } = await bench.line();
      const options = { connection: { url }, schema: "t_refused", migrate: "on-start" as const };
      const wrong = handler("batches", () => {}, { batch: { size: 0 } });
      expect(await problems(() => bench.worker([wrong], {}, options))).toEqual([
        expect.stringMatching(/^Handlers\.run: batch\.size: expected an integer 1\.\./),
      ]);
      expect(proxy.connections).toBe(0);
      expect(await migrated()).toBe(false);
    });

    it("a hook of the app that throws after the migration leaves no connection open", async () => {
      class Refusal implements OnModuleInit {
        onModuleInit = () => {
          throw new Error("the app does not want to");
        };
      }
      const { proxy, url } = await bench.line();
      const options = { connection: { url }, schema: "t_refused", migrate: "on-start" as const };
      const boot = bench.worker([handler("good", () => {}), Refusal], {}, options);
      await expect(boot).rejects.toThrow("the app does not want to");
      expect(await migrated()).toBe(true);
      await until(() => proxy.connections === 0, { what: "nothing is connected" });
    });
  });

  it("everything wrong with the handlers comes in one message", async () => {
    @Injectable()
    class Scoped {
      @JobHandler("x", { attempts: -1 })
      x(): void {}
      @JobHandler("y")
      y(): void {}
    }
    expect(await problems(() => boot([Scoped, handler("y", () => {})]))).toHaveLength(2);
  });
});
