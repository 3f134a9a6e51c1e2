import {
  type DynamicModule,
  Inject,
  Logger,
  Module,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
  Optional,
} from "@nestjs/common";
import { DiscoveryModule, ModulesContainer } from "@nestjs/core";
import type { Handler } from "./handler/handler.js";
import { type Exploration, HandlerExplorer } from "./handler/handler.explorer.js";
import { HandlerPipelines } from "./handler/handler-pipelines.js";
import { lookalikes, unserved } from "./handler/served-queues.js";
import type { StepsBackoff } from "./job/backoff.js";
import { OptionsError, atBoot } from "./job/errors.js";
import {
  DEFAULT_QUEUE,
  type ParsedQueueOptions,
  type ParsedWorkerOptions,
  type WorkerOptions,
  parseWorkerOptions,
} from "./jobs.options.js";
import { JobsRoot } from "./jobs.root.js";
import { WORKER_OPTIONS } from "./jobs.tokens.js";
import { payloadFor } from "./queue/call.js";
import { type DeclaredLimit, DeclaredLimits } from "./queue/declared-limits.js";
import { type DeclaredSchedule, DeclaredSchedules } from "./queue/declared-schedules.js";
import { DeclaredSubscriptions } from "./queue/declared-subscriptions.js";
import { enqueueFor } from "./queue/enqueue-for.js";
import { onTransaction } from "./queue/transaction.js";
import { serviceName } from "./service-name.js";
import type { NewSubscription } from "./store/events/subscriptions.js";
import { ScheduleDuty, type ScheduleWatch } from "./upkeep/schedules.js";
import { runChore } from "./upkeep/upkeep.js";
import type { Attempt } from "./worker/attempt.js";
import { causeOf } from "./worker/outage.js";
import { RELEASE } from "./release.js";
import { Worker } from "./worker/worker.js";

/**
 * The worker of an app. Not global, and it imports the features: so Nest destroys it before them, and the
 * global `JobsModule` after them. It drains while everything that a handler may need is still there.
 */
@Module({})
export class JobsWorkerModule implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  readonly #logger = new Logger("JobsWorker");
  #found: Exploration | undefined;
  #worker: Worker | undefined;
  #drained = true;

  constructor(
    @Inject(WORKER_OPTIONS) private readonly options: ParsedWorkerOptions,
    @Optional() @Inject(JobsRoot) private readonly opened: JobsRoot | undefined,
    private readonly explorer: HandlerExplorer,
    private readonly modules: ModulesContainer,
  ) {}

  /** @internal `JobsModule.forWorker()` is the door. */
  static for(options: WorkerOptions): DynamicModule {
    const parsed = atBoot(() => parseWorkerOptions(options));
    return {
      module: JobsWorkerModule,
      imports: [DiscoveryModule, ...parsed.imports],
      providers: [HandlerExplorer, HandlerPipelines, { provide: WORKER_OPTIONS, useValue: parsed }],
    };
  }

  /** The worker; undefined before the app is up. */
  get worker(): Worker | undefined {
    return this.#worker;
  }
  /** Whether every handler had ended when the worker stopped. */
  get drained(): boolean {
    return this.#drained;
  }
  get graceMs(): number {
    return this.options.graceMs;
  }

  get #root(): JobsRoot {
    return (
      this.opened ??
      this.#refuse([
        "JobsModule.forRoot: expected in the same app, found none; import JobsModule.forRoot({ connection: { url } }) beside forWorker",
      ])
    );
  }

  /** @internal Fails the boot for what is wrong with the workers of an app, all of it in one message. @throws OptionsError */
  static async check(modules: ModulesContainer): Promise<void> {
    const workers = workersOf(modules);
    const [first] = workers;
    if (!first) return;
    const problems = [
      ...new Set((await Promise.all(workers.map((one) => one.#problems()))).flat()),
      ...first.#tooFewConnections(workers.length),
    ];
    if (problems.length > 0) first.#refuse(problems);
  }

  /** `JobsModule` has checked it by then, unless there is none. */
  onModuleInit(): void {
    const { handlers } = this.#explored();
    this.#warn(handlers);
    this.#worker = this.#make(handlers);
    this.#root.vitals.add(this.#worker);
  }

  #refuse(problems: readonly string[]): never {
    const error = new OptionsError("set-up of the worker", problems);
    // Nest says nothing of what fails in a hook.
    this.#logger.error(error.message);
    return atBoot(() => {
      throw error;
    });
  }

  /** Only now is everything up that a handler may need. */
  onApplicationBootstrap(): void {
    this.#root.local.add(this.#worker!);
    this.#worker!.start();
  }

  async onModuleDestroy(): Promise<void> {
    // Closing twice is one end, told once.
    if (!this.#worker || this.#worker.state === "stopped") return;
    this.#root.local.remove(this.#worker);
    const { unwritten, ...bodies } = await this.#worker.stop();
    this.#drained = bodies.running === 0;
    if (!this.#drained) this.#logger.error("Handlers still run after the grace period", bodies);
    if (unwritten > 0)
      this.#logger.error(
        "What became of jobs could not be written: they run again once their leases are over",
        { jobs: unwritten },
      );
  }

  get #service(): string {
    return this.options.service ?? serviceName(process.argv[1]);
  }

  /** The queues that are served. */
  #named(handlers: readonly Handler[]): ReadonlyMap<string, ParsedQueueOptions> {
    const names = new Set(handlers.map(({ definition }) => definition.queue));
    return this.options.queues ?? new Map([...names].map((name) => [name, DEFAULT_QUEUE]));
  }

  /** Those that any worker of this app says: what one of them says nothing of is taken away. */
  #limits(): DeclaredLimit[] {
    return workersOf(this.modules)
      .filter((one) => one.#service === this.#service)
      .flatMap((one) => {
        const { handlers } = one.#explored();
        return bounded(one.#named(handlers), handlers);
      });
  }

  #make(handlers: readonly Handler[]): Worker {
    const { leaseMs, pollMs, graceMs } = this.options;
    const named = this.#named(handlers);
    const { store, hints, database, events, results } = this.#root;
    const { notify, payloadLimit, resultLimit, keepFinishedMs } = this.#root.options;
    const service = this.#service;
    const released = (queueId: number) => {
      worker.wake(queueId, undefined, true);
      hints.tellOthers({ queueId, behind: true });
    };
    const limits = new DeclaredLimits(this.#limits(), {
      store,
      service,
      changed: (queueId) => hints.changed(queueId),
    });
    const subscriptions = new DeclaredSubscriptions(subscribed(handlers), {
      store,
      service,
      log: (level, message, params) => this.#logger[level](message, params),
    });
    const schedules = new DeclaredSchedules(scheduled(handlers), {
      store,
      payloadLimit,
      service,
      log: (level, message, params) => this.#logger[level](message, params),
    });
    const duty = new ScheduleDuty(store, this.#watch());
    const worker: Worker = new Worker(
      {
        leaseMs,
        pollMs,
        graceMs,
        notify,
        resultLimit,
        keepFinishedMs,
        queues: [...named].map(([name, settings]) => ({ name, ...settings })),
      },
      {
        database,
        store,
        events,
        handlers: withinLimits(handlers, named),
        release: RELEASE,
        hint: (queueId, kind) => hints.hint(queueId, kind),
        tellOthers: (queueId) => hints.tellOthers({ queueId }),
        limits,
        released: (queueId) => hints.tellOthers({ queueId, behind: true }),
        answered: (queueId, ids) => results.answered(queueId, ids),
        subscriptions,
        schedules: {
          ready: () => schedules.ready,
          fire: async () => await duty.run(),
          keep: async () => await schedules.keep(),
          forget: () => schedules.forget(),
        },
        chore: async (name) =>
          await runChore(store, name, {
            keepFinishedMs,
            released,
            changed: (queueId) => hints.changed(queueId),
            warn: (message, params) => this.#logger.warn(message, params),
          }),
        log: (level, message, params) => {
          try {
            this.#logger[level](message, params ?? {});
          } catch {
            // A logger of the app's that throws: whoever complains of a fault goes on to mend it.
          }
        },
        logger: (attempt) => new JobLog(attempt),
        on: (tx) => onTransaction(tx, store.schema, "job.transaction(source, fn)"),
        enqueue: async (attempt, definition, payload, options) => {
          return await enqueueFor(
            { store, hints, payloadLimit },
            () => attempt.claim,
            definition,
            payload,
            options,
            () => worker.attemptLost(attempt),
          );
        },
      },
    );
    return worker;
  }

  #watch(): ScheduleWatch {
    const { events, hints } = this.#root;
    return {
      fired: ({ schedule: { name, queueId, kind, queue }, ids, leftOut }) => {
        if (events.heard("enqueued"))
          for (const id of ids) events.emit({ event: "enqueued", id, kind, queue });
        if (ids.length > 0) hints.hint(queueId, kind);
        if (leftOut > 0)
          this.#logger.log("Ticks were left out: the job before them is not over", {
            schedule: name,
            ticks: leftOut,
          });
      },
      failed: ({ name }, error) =>
        this.#logger.error("A schedule is due and cannot be seen to", {
          schedule: name,
          cause: causeOf(error),
        }),
    };
  }

  #explored(): Exploration {
    return (this.#found ??= this.explorer.explore(this, [JobsWorkerModule], {
      defaults: this.#root.options.defaults,
      globals: this.options.globalEnhancers,
      service: this.#service,
    }));
  }

  async #problems(): Promise<string[]> {
    const { handlers, problems } = this.#explored();
    const { queues } = this.options;
    return [
      ...problems,
      ...(queues ? unserved(handlers, [...queues.keys()]) : []),
      ...tooLargeBatches(handlers, queues),
      ...(await this.#unfitPayloads(handlers)),
    ];
  }

  /** Else each tick would enqueue a job that its own handler refuses. */
  async #unfitPayloads(handlers: readonly Handler[]): Promise<string[]> {
    const problems: string[] = [];
    for (const { name, definition, schedule } of handlers) {
      if (!schedule) continue;
      try {
        await payloadFor(definition, schedule.payload, this.#root.options.payloadLimit);
      } catch (error) {
        problems.push(`${name}: payload: ${(error as Error).message}`);
      }
    }
    return problems;
  }

  #tooFewConnections(workers: number): string[] {
    // Hints to others, by the whole app; claims, settles, renewals, and hints from others, by each worker.
    const needed = 1 + workers * (this.#root.options.notify ? 4 : 3);
    const found = this.#root.options.connections;
    if (found >= needed) return [];
    const of =
      workers === 1
        ? `a worker, found ${found}`
        : `${workers} workers, found ${found}; raise it in forRoot, or give all imports and queues to one forWorker()`;
    return [`connections: expected at least ${needed} for ${of}`];
  }

  #warn(handlers: readonly Handler[]): void {
    for (const { name, policy } of handlers) {
      const steps = (policy.backoff as Partial<StepsBackoff>).length;
      if (steps !== undefined && steps > policy.attempts - 1) {
        this.#logger.warn("Some steps of a backoff can never be reached", {
          handler: name,
          steps,
          attempts: policy.attempts,
        });
      }
    }
    for (const one of lookalikes(handlers, [...(this.options.queues?.keys() ?? [])]))
      this.#logger.warn("A queue is served that is no handler's, though its name is like one", one);
    if (handlers.length === 0)
      this.#logger.warn("No @JobHandler() found in the imports of forWorker: nothing to do");
  }
}

const workersOf = (modules: ModulesContainer): JobsWorkerModule[] =>
  [...modules.values()]
    .map(({ instance }) => instance as unknown)
    .filter((instance) => instance instanceof JobsWorkerModule);

const bounded = (
  queues: ReadonlyMap<string, ParsedQueueOptions>,
  handlers: readonly Handler[],
): DeclaredLimit[] => [
  ...[...queues].flatMap(([queue, { limits }]) => (limits ? [{ queue, rules: limits }] : [])),
  ...handlers.flatMap(({ definition: { kind, queue }, limits }) =>
    limits ? [{ queue, kind, rules: limits }] : [],
  ),
];

/** A batch is full when it has as many as its limits let run at once. */
const withinLimits = (
  handlers: readonly Handler[],
  queues: ReadonlyMap<string, ParsedQueueOptions>,
): Handler[] =>
  handlers.map((handler) => {
    const { batch, limits, definition } = handler;
    const rules = [...(limits ?? []), ...(queues.get(definition.queue)?.limits ?? [])];
    const most = rules.flatMap(({ keyPath, max }) => (keyPath === "" && max !== null ? [max] : []));
    if (!batch || most.length === 0) return handler;
    return { ...handler, batch: { ...batch, size: Math.min(batch.size, ...most), limited: true } };
  });

/** Each job of a batch takes a slot: one that is larger could never come together. */
const tooLargeBatches = (
  handlers: readonly Handler[],
  queues: ReadonlyMap<string, ParsedQueueOptions> | null,
): string[] =>
  handlers.flatMap(({ name, batch, concurrency, definition: { queue } }) => {
    const most = (queues?.get(queue) ?? DEFAULT_QUEUE).concurrency;
    if (!batch || batch.size <= Math.min(most, concurrency ?? most)) return [];
    const found = `${batch.size} of ${Math.min(most, concurrency ?? most)}`;
    return [
      `${name}: batch.size: expected at most as many as run at once, found ${found}; raise ${concurrency !== null && concurrency < batch.size ? "its concurrency" : `the concurrency of queue "${queue}"`}`,
    ];
  });

const subscribed = (handlers: readonly Handler[]): NewSubscription[] =>
  handlers.flatMap(({ definition: { kind, queue, priority }, subscription }) =>
    subscription ? [{ ...subscription, kind, queue, priority }] : [],
  );

const scheduled = (handlers: readonly Handler[]): DeclaredSchedule[] =>
  handlers.flatMap(({ definition, schedule }) => (schedule ? [{ definition, ...schedule }] : []));

/** The log of one attempt: every line carries the job. */
class JobLog {
  static readonly #logger = new Logger("Job");
  readonly #about: object;

  constructor({ id, kind, queue, failures, attempts }: Attempt) {
    this.#about = { id, kind, queue, attempt: `${failures + 1}/${attempts}` };
  }

  log(message: string, params: object = {}): void {
    JobLog.#logger.log(message, { ...this.#about, ...params });
  }
  warn(message: string, params: object = {}): void {
    JobLog.#logger.warn(message, { ...this.#about, ...params });
  }
  error(message: string, params: object = {}): void {
    JobLog.#logger.error(message, { ...this.#about, ...params });
  }
  debug(message: string, params: object = {}): void {
    JobLog.#logger.debug(message, { ...this.#about, ...params });
  }
}
