import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  Scope,
  UseGuards,
} from "@nestjs/common";
import { ContextIdFactory, REQUEST } from "@nestjs/core";
import { type JobContext, JobHandler, JobQueue } from "nestjs-pg-jobs";
import { payloads, reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

/** Counts what is made, and what is gone again. */
class Lives {
  made = 0;
  gone = 0;
  readonly #registry = new FinalizationRegistry<undefined>(() => void this.gone++);
  born(instance: object): void {
    this.made++;
    this.#registry.register(instance, undefined);
  }
}
const lives = { tenant: new Lives(), handler: new Lives(), transient: new Lives() };

@Injectable()
class Shared {}

@Injectable({ scope: Scope.REQUEST })
class Tenant {
  constructor(@Inject(REQUEST) readonly job: JobContext) {
    lives.tenant.born(this);
  }
}
@Injectable()
class IsHisOwn implements CanActivate {
  constructor(readonly tenant: Tenant) {}
  canActivate(context: ExecutionContext): boolean {
    return context.getArgByIndex<JobContext>(1) === this.tenant.job;
  }
}
@Injectable()
class Needs {
  constructor(
    readonly tenant: Tenant,
    readonly shared: Shared,
  ) {
    lives.handler.born(this);
  }
  @JobHandler("scoped", { attempts: 1 })
  run(_: unknown, job: JobContext): unknown {
    return { same: this.tenant.job === job, shared: this.shared instanceof Shared };
  }
  @UseGuards(IsHisOwn)
  @JobHandler("scoped.guarded", { attempts: 1 })
  guarded(_: unknown, job: JobContext): unknown {
    return this.tenant.job.id === job.id;
  }
}
@Injectable()
class Guarded {
  @UseGuards(IsHisOwn)
  @JobHandler("by-guard", { attempts: 1 })
  run(): string {
    return "let in";
  }
}
@Injectable({ scope: Scope.REQUEST })
class Fails {
  constructor() {
    throw new Error("cannot be made");
  }
  @JobHandler("fails", { attempts: 1 })
  run(): void {}
}
@Injectable({ scope: Scope.TRANSIENT })
class Transient {
  #runs = 0;
  constructor() {
    lives.transient.born(this);
  }
  @JobHandler("transient", { attempts: 1 })
  run(): number {
    return ++this.#runs;
  }
}
@Injectable({ scope: Scope.REQUEST, durable: true })
class PerCustomer {
  static made = 0;
  readonly number = ++PerCustomer.made;
  constructor(@Inject(REQUEST) readonly customer: { customer: string }) {}
  @JobHandler("durable", { attempts: 1 })
  run(): unknown {
    return [this.number, this.customer];
  }
}

describe("scopes of providers with handlers", () => {
  let bench: Bench;
  let jobs: JobQueue;
  beforeAll(async () => {
    bench = await Bench.open();
    const app = await bench.worker(
      [Shared, Tenant, Needs, Guarded, Fails, Transient, PerCustomer],
      {
        queues: { default: { concurrency: 50, prefetch: 100 } },
      },
    );
    jobs = app.get(JobQueue);
  });
  afterAll(async () => await bench.close());

  const run = async (kind: string, state = "succeeded", payload: object = {}) =>
    await reached(bench, (await jobs.enqueue(kind, payload)).id, state);

  it("request: an instance of its own for each attempt, @Inject(REQUEST) is the JobContext", async () => {
    const before = lives.handler.made;
    for (let i = 0; i < 3; i++)
      expect((await run("scoped")).result).toEqual({ same: true, shared: true });
    expect(lives.handler.made).toBe(before + 3);
  });

  it("request: guards are of the same context", async () => {
    expect((await run("scoped.guarded")).result).toBe(true);
  });

  it("request: a guard that needs it makes its handler so", async () => {
    expect((await run("by-guard")).result).toBe("let in");
  });

  it("request: what cannot be made is an ordinary failure", async () => {
    expect((await run("fails", "dead")).last_error).toBe("cannot be made");
  });

  it("transient: an instance of its own for each attempt", async () => {
    expect((await run("transient")).result).toBe(1);
    expect((await run("transient")).result).toBe(1);
  });

  it("durable: one instance for each tree that the app's strategy names", async () => {
    const trees = new Map<string, { id: number }>();
    ContextIdFactory.apply({
      attach(contextId, job: JobContext) {
        const { customer } = job.payload as { customer: string };
        if (!trees.has(customer)) trees.set(customer, ContextIdFactory.create());
        const tree = trees.get(customer)!;
        return {
          resolve: (info) => (info.isTreeDurable ? tree : contextId),
          payload: { customer },
        };
      },
    });
    try {
      const results: unknown[] = [];
      for (const customer of ["a", "b", "a"])
        results.push((await run("durable", "succeeded", { customer })).result);
      expect(results).toEqual([
        [1, { customer: "a" }],
        [2, { customer: "b" }],
        [1, { customer: "a" }],
      ]);
    } finally {
      ContextIdFactory.apply(undefined as never);
    }
  });

  it("10,000 attempts leave none of their instances behind", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const JOBS = 5_000;
    const before = { handler: lives.handler.made, transient: lives.transient.made };
    await jobs.enqueueMany("scoped", payloads(JOBS));
    await jobs.enqueueMany("transient", payloads(JOBS));
    await until(
      () =>
        lives.handler.made >= before.handler + JOBS &&
        lives.transient.made >= before.transient + JOBS,
      { timeout: 60_000, what: "all have run" },
    );
    await until(async () => (await bench.states()).running === undefined, { what: "all is over" });
    await until(
      () => {
        collect();
        return Object.values(lives).every(({ made, gone }) => made - gone < 200);
      },
      { timeout: 40_000, every: 100, what: "the instances are gone" },
    );
  }, 120_000);
});
