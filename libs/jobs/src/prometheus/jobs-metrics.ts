import {
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  Optional,
} from "@nestjs/common";
import { OptionsError, atBoot } from "../job/errors.js";
import { JOB_EVENTS } from "../job/event.js";
import { Events } from "../observe/events.js";
import { Exposition } from "../observe/exposition.js";
import { Vitals } from "../observe/vitals.js";
import { JobInspector } from "../queue/job-inspector.js";
import { JobQueue } from "../queue/job-queue.js";
import { databaseMetrics } from "./database-metrics.js";
import { type DatabaseReads, DatabaseSample } from "./database-sample.js";
import { eventMetrics } from "./event-metrics.js";
import type { Family } from "./family.js";
import { Labels } from "./labels.js";
import { LoopDelay } from "../observe/loop-delay.js";
import type { ParsedMetricsOptions } from "./metrics.options.js";
import { processMetrics } from "./process-metrics.js";
import { Tallies } from "./tallies.js";

/** @internal The options of `forRoot` after checking. */
export const METRICS_OPTIONS = "nestjs-pg-jobs:metrics-options";

/** The metrics of this app, for a controller that serves them. */
@Injectable()
export class JobsMetrics
  extends Exposition
  implements OnApplicationBootstrap, OnApplicationShutdown
{
  readonly #logger = new Logger("JobsMetrics");
  readonly #families: Family[];
  readonly #loop = new LoopDelay();
  readonly #tallies: Tallies;
  readonly #stopHearing: () => void;
  #registered = false;

  constructor(
    @Inject(METRICS_OPTIONS) private readonly options: ParsedMetricsOptions,
    @Optional() @Inject(Events) events: Events | undefined,
    @Optional() @Inject(Vitals) private readonly vitals: Vitals | undefined,
    @Optional() @Inject(JobInspector) inspector: JobInspector | undefined,
    @Optional() @Inject(JobQueue) jobs: JobQueue | undefined,
  ) {
    super();
    if (!events || !vitals || !inspector || !jobs)
      return atBoot(() => {
        throw new OptionsError("set-up of JobsMetricsModule", [NO_JOBS]);
      });
    const { prefix, database, schemaLabel: schema = vitals.schema } = options;
    const tallies = (this.#tallies = new Tallies(this.#labels()));
    const sample = new DatabaseSample(readsOf(inspector, jobs));
    // Labels of their own: kinds that the tables know of old must not take the places of those that run here.
    const ofSchema = [
      ...eventMetrics(prefix, tallies),
      ...(database ? databaseMetrics(prefix, sample, this.#labels()) : []),
    ];
    this.#families = [
      ...ofSchema.map((family) => family.labelled({ schema })),
      ...processMetrics(prefix, vitals, this.#loop),
    ];
    // From the beginning: jobs may run before the app is up.
    this.#stopHearing = events.on(JOB_EVENTS, tallies.hear);
  }

  /** That of the registry: Prometheus' text format, or OpenMetrics. */
  get contentType(): string {
    return this.options.registry.contentType;
  }

  /**
   * All metrics of the registry, yours too. A database that is away changes what it says, and not that it answers: then
   * `database_up` is 0, after 3 s at most. Rejects when a metric that is not ours cannot be read.
   */
  async text(): Promise<string> {
    return await this.options.registry.metrics();
  }

  /** Only now: nobody would take the metrics of an app that did not boot out of the registry again. */
  onApplicationBootstrap(): void {
    const { registry } = this.options;
    const taken = this.#families
      .map(({ registered }) => registered)
      .filter((name) => registry.getSingleMetric(name));
    if (taken.length > 0) this.#refuse(taken);
    for (const { serves } of this.vitals!.workers)
      for (const one of serves) this.#tallies.expect(one);
    for (const { metric } of this.#families) registry.registerMetric(metric);
    this.#registered = true;
  }

  /** When the workers have drained: the end of what they ran is counted. */
  onApplicationShutdown(): void {
    this.#stopHearing();
    this.#loop.stop();
    if (!this.#registered) return;
    this.#registered = false;
    for (const { registered } of this.#families)
      this.options.registry.removeSingleMetric(registered);
  }

  #labels(): Labels {
    const { maxLabels } = this.options;
    return new Labels(maxLabels, (what) =>
      this.#logger.warn(`More ${what} than get a label of their own in metrics`, {
        maxLabels,
        rest: "other",
      }),
    );
  }

  #refuse(taken: readonly string[]): never {
    const error = new OptionsError("set-up of JobsMetricsModule", [
      `registry: expected one without ${taken[0]}, found one that has it; import JobsMetricsModule.forRoot once in an app, ` +
        "and give each app of a process a registry or a prefix of its own",
    ]);
    // Nest says nothing of what fails in a hook.
    this.#logger.error(error.message);
    return atBoot(() => {
      throw error;
    });
  }
}

const readsOf = (inspector: JobInspector, { queues }: JobQueue): DatabaseReads => ({
  counts: () => inspector.counts(),
  health: () => inspector.health(),
  unknownKinds: () => inspector.unknownKinds(),
  workers: () => inspector.workers(),
  // a schema before 4 has none
  pauses: () => queues.list().catch(() => []),
});

const NO_JOBS =
  "JobsModule.forRoot: expected in the same app, found none; import JobsModule.forRoot({ connection: { url } }) beside it";
