import {
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  Catch,
  type ExceptionFilter,
  type ExecutionContext,
  Inject,
  Injectable,
  Logger,
  Module,
  type NestInterceptor,
  ParseIntPipe,
  type PipeTransform,
  type Provider,
  Scope,
  type Type,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  createParamDecorator,
} from "@nestjs/common";
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE, REQUEST, Reflector } from "@nestjs/core";
import { jest } from "@jest/globals";
import { type Observable, Subject, concat, concatMap, map, switchMap, takeUntil, tap } from "rxjs";
import {
  Job,
  type JobContext,
  JobHandler,
  JobQueue,
  JobsModule,
  Payload,
  bury,
  isJobContext,
  skip,
  snooze,
} from "nestjs-pg-jobs";
import { ExternalContextCreator } from "@nestjs/core";
import { reached } from "../support/handlers.js";
import { Bench, feature } from "../support/harness.js";
import { until } from "../support/until.js";

const seen: unknown[] = [];

@Injectable()
class Counter {
  made = 0;
}
@Injectable()
class Gatekeeper implements CanActivate {
  constructor(
    private readonly counter: Counter,
    private readonly reflector: Reflector,
  ) {
    this.counter.made++;
  }
  canActivate(context: ExecutionContext): boolean {
    const [payload, job] = context.getArgs<[{ closed?: boolean }, JobContext]>();
    seen.push([
      "guard",
      isJobContext(context),
      job.kind,
      context.getHandler().name,
      context.getClass().name,
    ]);
    return this.reflector !== undefined && payload.closed !== true;
  }
}
@Injectable()
class Around implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    seen.push(["before", context.getType()]);
    return next.handle().pipe(
      tap(() => seen.push(["after"])),
      map((value) => ({ wrapped: value })),
    );
  }
}
class Upper implements PipeTransform {
  transform(
    value: unknown,
    { type, metatype }: { type: string; metatype?: { name: string } },
  ): unknown {
    seen.push(["pipe", type, metatype?.name]);
    return type === "body" ? { name: (value as { name: string }).name.toUpperCase() } : value;
  }
}
class Broken extends Error {}
@Catch(Broken)
class Quiet implements ExceptionFilter {
  catch(error: Broken, host: ArgumentsHost): unknown {
    seen.push([
      "filter",
      error.message,
      isJobContext(host),
      host.getArgByIndex<JobContext>(1).kind,
    ]);
    return { all: "well" };
  }
}
@Catch()
class Translates implements ExceptionFilter {
  catch(error: Error): unknown {
    if (error.message === "hopeless") return bury("translated");
    throw new Error(`translated ${error.message}`);
  }
}
@Catch()
class Silent implements ExceptionFilter {
  catch(): void {}
}
@Injectable()
class Greetings {
  of = (name: string): string => `hello ${name}`;
}
@Injectable()
class Greets implements PipeTransform {
  constructor(private readonly greetings: Greetings) {}
  transform({ name }: { name: string }): string {
    return this.greetings.of(name);
  }
}
@Injectable({ scope: Scope.REQUEST })
class Signs implements PipeTransform {
  constructor(@Inject(REQUEST) private readonly job: JobContext) {}
  transform(text: string): string {
    return `${text}, ${this.job.kind}`;
  }
}
const Tenant = createParamDecorator(
  (field: string, context: ExecutionContext) =>
    context.getArgByIndex<Record<string, unknown>>(0)[field],
);

@Injectable()
class Enhanced {
  @UseGuards(Gatekeeper)
  @UseInterceptors(Around)
  @JobHandler("guarded", { attempts: 1 })
  guarded(payload: object, job: JobContext): unknown {
    seen.push(["body", payload, job.kind]);
    return "value";
  }
  @UsePipes(Upper)
  @JobHandler("piped", { attempts: 1 })
  piped(payload: { name: string }, job: JobContext): unknown {
    return [payload.name, job.kind];
  }
  @UseFilters(Quiet)
  @JobHandler("quiet", { attempts: 1 })
  quiet({ skips }: { skips?: boolean }): unknown {
    throw skips ? skip("nothing") : new Broken("it broke");
  }
  @UseFilters(Translates)
  @JobHandler("translated", { attempts: 1 })
  translated({ message }: { message: string }): unknown {
    throw new Error(message);
  }
  @UseFilters(Silent)
  @JobHandler("silent", { attempts: 1 })
  silent(): unknown {
    throw new Error("unseen");
  }
  @JobHandler("decorated", { attempts: 1 })
  decorated(
    @Job() job: JobContext,
    @Payload(Upper) payload: { name: string },
    @Tenant("tenant") tenant: string,
  ): unknown {
    return [job.kind, payload.name, tenant];
  }
  @UsePipes(ParseIntPipe)
  @JobHandler("refused", { attempts: 1 })
  refused(): unknown {
    return "never";
  }
  @JobHandler("plain", { attempts: 1 })
  plain(payload: unknown): unknown {
    seen.push(["plain"]);
    return payload;
  }
}

describe("enhancers of handlers", () => {
  let bench: Bench;
  let jobs: JobQueue;
  let counter: Counter;
  beforeAll(async () => {
    bench = await Bench.open();
    const app = await bench.worker([Counter, Enhanced]);
    jobs = app.get(JobQueue);
    counter = app.get(Counter);
  });
  afterAll(async () => await bench.close());
  beforeEach(() => void (seen.length = 0));

  const run = async (kind: string, payload: object, state = "succeeded") =>
    await reached(bench, (await jobs.enqueue(kind, payload)).id, state);

  it("run around it, in Nest's order, with injection", async () => {
    expect((await run("guarded", { n: 1 })).result).toEqual({ wrapped: "value" });
    expect(seen).toEqual([
      ["guard", true, "guarded", "guarded", "Enhanced"],
      ["before", "job"],
      ["body", { n: 1 }, "guarded"],
      ["after"],
    ]);
  });

  it("make a guard that refuses a failure", async () => {
    expect((await run("guarded", { closed: true }, "dead")).last_error).toMatch(/Forbidden/);
    expect(seen).toHaveLength(1);
  });

  it("are made once, and so is what runs them", async () => {
    const before = jest.spyOn(ExternalContextCreator.prototype, "create");
    for (let i = 0; i < 5; i++) await run("guarded", {});
    expect(before).not.toHaveBeenCalled();
    before.mockRestore();
    expect(counter.made).toBe(1);
  });

  it("@UsePipes runs though the parameters say nothing: the payload is a body, the context custom", async () => {
    expect((await run("piped", { name: "ada" })).result).toEqual(["ADA", "piped"]);
    expect(seen).toEqual([
      ["pipe", "body", "Object"],
      ["pipe", "custom", "Object"],
    ]);
  });

  it("a pipe that refuses fails the job", async () => {
    expect((await run("refused", {}, "dead")).last_error).toMatch(/numeric string is expected/);
  });

  it("@Payload(pipe), @Job() and decorators of your own say what a parameter gets", async () => {
    const { result } = await run("decorated", { name: "ada", tenant: "t1" });
    expect(result).toEqual(["decorated", "ADA", "t1"]);
  });

  it("a filter that returns a value does not make a success of a failure", async () => {
    expect((await run("quiet", {}, "dead")).last_error).toBe("it broke");
    expect(seen).toEqual([["filter", "it broke", true, "quiet"]]);
  });

  it("a filter may throw another error, or return a verdict", async () => {
    expect((await run("translated", { message: "x" }, "dead")).last_error).toBe("translated x");
    const { last_error } = await run("translated", { message: "hopeless" }, "dead");
    expect(last_error).toBe("translated");
  });

  it("a filter is not asked for a verdict: it is no failure", async () => {
    expect((await run("quiet", { skips: true }, "skipped")).result).toEqual({ reason: "nothing" });
    expect(seen).toEqual([]);
  });

  it("a failure is logged once, also by a filter that says nothing", async () => {
    const logged = jest.spyOn(Logger.prototype, "error").mockImplementation(() => undefined);
    await run("silent", {}, "dead");
    await run("quiet", {}, "dead");
    // The row is there before the worker has its answer.
    await until(() => logged.mock.calls.length >= 2, { what: "both are logged" });
    expect(logged.mock.calls.map(([message]) => message)).toEqual(["Job is dead", "Job is dead"]);
    logged.mockRestore();
  });

  it("costs a handler without any of it nothing: it is called directly", async () => {
    await run("plain", {});
    const stack: string[] = [];
    const own = Reflect.get(Enhanced.prototype, "plain");
    Enhanced.prototype.plain = function plain(payload) {
      stack.push(new Error("here").stack!);
      return own.call(this, payload);
    };
    await run("plain", {});
    Enhanced.prototype.plain = own;
    expect(stack[0]).not.toMatch(/@nestjs/);
  });
});

describe("verdicts and interceptors", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  class Wraps implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(map((data: unknown) => ({ data })));
    }
  }
  const rules = new Map<string, () => unknown>([
    ["succeeded", () => "value"],
    ["skipped", () => skip("nothing to do")],
    ["dead", () => bury("hopeless")],
    ["snoozed", () => snooze("1h")],
  ]);
  const asked = ({ rule }: { rule: string }): unknown => rules.get(rule)!();

  @Injectable()
  class Bare {
    @JobHandler("bare", { attempts: 1 })
    run(payload: { rule: string }): unknown {
      return asked(payload);
    }
  }
  @Injectable()
  class Overrules {
    @UseInterceptors({
      intercept: (_: unknown, next: CallHandler) => next.handle().pipe(map(() => skip("instead"))),
    })
    @JobHandler("overruled", { attempts: 1 })
    overruled(payload: { rule: string }): unknown {
      return asked(payload);
    }
  }
  const begun = new Subject<void>();
  let answer: (said: unknown) => void;
  /** Gives the first call up, asks again, and is done once the first has answered all the same. */
  const givesUp = {
    intercept: (_: unknown, next: CallHandler): Observable<unknown> =>
      concat(next.handle().pipe(takeUntil(begun)), next.handle()).pipe(
        concatMap(async (said: unknown) => {
          answer(bury("given up"));
          await new Promise((resolve) => setImmediate(resolve));
          return said;
        }),
      ),
  };

  @Injectable()
  @UseInterceptors(Wraps)
  class Wrapped {
    @UseInterceptors(Wraps)
    @JobHandler("wrapped", { attempts: 1 })
    run(payload: { rule: string }): unknown {
      return asked(payload);
    }
    @UseInterceptors({
      intercept: (_: unknown, next: CallHandler) =>
        next.handle().pipe(
          tap(() => {
            throw new Error("thrown");
          }),
        ),
    })
    @JobHandler("thrown", { attempts: 1 })
    thrown(payload: { rule: string }): unknown {
      return asked(payload);
    }
    #calls = 0;
    @UseInterceptors({
      intercept: (_: unknown, next: CallHandler) =>
        next.handle().pipe(switchMap(() => next.handle())),
    })
    @JobHandler("twice", { attempts: 1 })
    twice(): unknown {
      return this.#calls++ === 0 ? bury("the first answer") : "the second";
    }
    @UseInterceptors(givesUp)
    @JobHandler("given-up", { attempts: 1 })
    givenUp(): unknown {
      if (this.#calls++ > 0) return "the second";
      begun.next();
      return new Promise((resolve) => (answer = resolve));
    }
  }
  @Module({ providers: [{ provide: APP_INTERCEPTOR, useClass: Wraps }] })
  class Everywhere {}

  async function run(kind: string, rule: string, state: string, globals = false) {
    const imports = [feature([Bare, Overrules, Wrapped])];
    const app = await bench.app([
      bench.root(),
      ...(globals ? [Everywhere] : []),
      JobsModule.forWorker({ imports, globalEnhancers: globals }),
    ]);
    try {
      const { id } = await app.get(JobQueue).enqueue(kind, { rule });
      return await reached(bench, id, state);
    } finally {
      await app.close();
    }
  }

  it.each([
    ["the method's and the class's", "wrapped", false],
    ["the app's", "bare", true],
  ])("what the method rules stands, whatever %s make of it", async (_whose, kind, globals) => {
    expect((await run(kind, "skipped", "skipped", globals)).result).toEqual({
      reason: "nothing to do",
    });
    expect((await run(kind, "dead", "dead", globals)).last_error).toBe("hopeless");
    const snoozed = await run(kind, "snoozed", "queued", globals);
    expect(snoozed.due_in).toBeGreaterThan(3_000_000);
    expect((await run(kind, "succeeded", "succeeded", globals)).result).toMatchObject({
      data: globals ? "value" : { data: "value" },
    });
  });

  it("unless an interceptor ends with another verdict, or throws", async () => {
    expect((await run("overruled", "dead", "skipped")).result).toEqual({ reason: "instead" });
    expect((await run("thrown", "skipped", "dead")).last_error).toBe("thrown");
  });

  it("of two answers the last one counts", async () => {
    expect((await run("twice", "", "succeeded")).result).toEqual({ data: "the second" });
  });

  it("an answer that is no longer waited for does not count", async () => {
    expect((await run("given-up", "", "succeeded")).result).toEqual({ data: "the second" });
  });

  it("leave a method as it was", () => {
    const on = (owner: Type<unknown>): unknown =>
      Reflect.getMetadata("__interceptors__", Reflect.get(owner.prototype as object, "run"));
    expect(on(Bare)).toBeUndefined();
    expect(on(Wrapped)).toEqual([Wraps]);
  });
});

// Each class of a pipe is named in one place only: what makes it in one would make it in all.
describe("pipes of parameters", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  async function result(providers: Provider[], kind: string): Promise<unknown> {
    const app = await bench.worker(providers);
    const { id } = await app.get(JobQueue).enqueue(kind, { name: "ada" });
    return (await reached(bench, id, "succeeded")).result;
  }

  it("@Payload(Class) is made by Nest, with what it needs", async () => {
    @Injectable()
    class Injected {
      @JobHandler("injected", { attempts: 1 })
      run(@Payload(Greets) text: string): string {
        return text;
      }
    }
    expect(await result([Greetings, Injected], "injected")).toBe("hello ada");
  });

  it("one that is made for each request makes its handler so", async () => {
    @Injectable()
    class Signed {
      @JobHandler("signed", { attempts: 1 })
      run(@Payload(Greets, Signs) text: string): string {
        return text;
      }
    }
    expect(await result([Greetings, Signed], "signed")).toBe("hello ada, signed");
  });

  it("are there for what a class inherits, and under a token of one's own", async () => {
    class Base {
      @JobHandler("inherited", { attempts: 1 })
      run(@Payload(Greets) text: string): string {
        return text;
      }
    }
    @Injectable()
    class Heir extends Base {}
    const provider = { provide: "heir", useClass: Heir };
    expect(await result([Greetings, provider], "inherited")).toBe("hello ada");
  });

  it("one that cannot have what it needs fails the boot", async () => {
    @Injectable()
    class Lacking {
      @JobHandler("lacking", { attempts: 1 })
      run(@Payload(Greets) text: string): string {
        return text;
      }
    }
    await expect(bench.worker([Lacking])).rejects.toThrow(/resolve dependencies of the Greets/);
  });
});

describe("what holds for the whole app", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());
  beforeEach(() => void (seen.length = 0));

  class Login implements CanActivate {
    canActivate(context: ExecutionContext): boolean {
      seen.push(["login", isJobContext(context)]);
      return isJobContext(context);
    }
  }
  class Everywhere implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      seen.push(["everywhere"]);
      return next.handle();
    }
  }
  @Catch()
  class Answers implements ExceptionFilter {
    catch(_error: unknown, host: ArgumentsHost): void {
      seen.push(["answers"]);
      host.switchToHttp().getResponse<{ status(code: number): void }>().status(500);
    }
  }
  class Rewrites implements PipeTransform {
    transform(): unknown {
      seen.push(["rewrites"]);
      return "rewritten";
    }
  }
  const globals: Provider[] = [
    { provide: APP_GUARD, useClass: Login },
    { provide: APP_INTERCEPTOR, useClass: Everywhere },
    { provide: APP_FILTER, useClass: Answers },
    { provide: APP_PIPE, useClass: Rewrites },
  ];
  @Module({ providers: globals })
  class Globals {}
  @Injectable()
  class Own {
    @UseInterceptors(Around)
    @JobHandler("own", { attempts: 1 })
    own(payload: { name: string }): unknown {
      if (payload.name === "throw") throw new Error("thrown");
      return payload;
    }
    @JobHandler("bare", { attempts: 1 })
    bare(payload: { name: string }): unknown {
      return payload;
    }
  }
  async function ran(worker: object, kind: string, name = "ada", state = "succeeded") {
    const app = await bench.app([
      bench.root(),
      Globals,
      JobsModule.forWorker({ imports: [feature([Own])], ...worker }),
    ]);
    const { id } = await app.get(JobQueue).enqueue(kind, { name, extra: 1 });
    const row = await reached(bench, id, state);
    await app.close();
    return row;
  }

  it("is not for handlers: guards that ask for headers, filters that answer, pipes that rewrite", async () => {
    expect((await ran({}, "own")).result).toEqual({ wrapped: { name: "ada", extra: 1 } });
    expect((await ran({}, "own", "throw", "dead")).last_error).toBe("thrown");
    expect(seen).toEqual([["before", "job"], ["after"], ["before", "job"]]);
  });

  it("with globalEnhancers: guards and interceptors are, pipes and filters never", async () => {
    expect((await ran({ globalEnhancers: true }, "bare")).result).toEqual({
      name: "ada",
      extra: 1,
    });
    expect(seen).toEqual([["login", true], ["everywhere"]]);
    expect((await ran({ globalEnhancers: true }, "own", "throw", "dead")).last_error).toBe(
      "thrown",
    );
    expect(seen).not.toContainEqual(["answers"]);
  });
});
