import {
  type DynamicModule,
  Inject,
  Logger,
  Module,
  type OnApplicationBootstrap,
  type OnModuleInit,
  Optional,
  type Provider,
} from "@nestjs/common";
import { ApplicationConfig, HttpAdapterHost, RouterModule } from "@nestjs/core";
import { JobBulk, JobQueue, OptionsError } from "nestjs-pg-jobs";
import { ADMIN_DOOR, type Door } from "./auth/door.js";
import { Failures } from "./auth/failures.js";
import { LoopbackDoor } from "./auth/loopback.js";
import { ADMIN_GUARD, GuardDoor } from "./auth/own-guard.js";
import { TokenDoor } from "./auth/tokens.js";
import { AuditController } from "./audit/audit.controller.js";
import { BulkController } from "./bulk/bulk.controller.js";
import { DeadLettersController } from "./dead-letters/dead-letters.controller.js";
import {
  type JobsAdminOptions,
  type ParsedAdminOptions,
  parseAdminOptions,
} from "./jobs-admin.options.js";
import { EventsController } from "./events/events.controller.js";
import { News } from "./events/news.js";
import { JobsController } from "./jobs/jobs.controller.js";
import { ADMIN_PATH, serveSlash } from "./mount.js";
import { OPERATIONS } from "./openapi/operations.js";
import { OpenApiController } from "./openapi/openapi.controller.js";
import { Payloads } from "./payloads/payloads.js";
import { Redaction } from "./payloads/redaction.js";
import { ProcessController } from "./process/process.controller.js";
import { QueuesController } from "./queues/queues.controller.js";
import { readBodies } from "./request/bodies.js";
import { RootController } from "./root/root.controller.js";
import { SchedulesController } from "./schedules/schedules.controller.js";
import { Snapshot } from "./stats/snapshot.js";
import { StatsController } from "./stats/stats.controller.js";
import { WorkersController } from "./workers/workers.controller.js";

/** The REST API for operators; needs `JobsModule.forRoot` beside it. Closed: without tokens or a guard it does not start. */
@Module({})
export class JobsAdminModule implements OnModuleInit, OnApplicationBootstrap {
  constructor(
    host: HttpAdapterHost,
    config: ApplicationConfig,
    @Inject(ADMIN_PATH) path: string,
    @Inject(ADMIN_DOOR) private readonly door: Door,
    @Optional() @Inject(JobQueue) jobs: JobQueue | undefined,
    @Optional() @Inject(JobBulk) private readonly bulk: JobBulk | undefined,
  ) {
    if (!jobs)
      throw new OptionsError("set-up of JobsAdminModule", [
        "JobsModule.forRoot: expected in the same app, found none; import JobsModule.forRoot({ connection: { url } }) beside it",
      ]);
    // Here and not later: the app registers its parsers once everything is made.
    serveSlash(host, config, path);
    readBodies(host, config, { path, payloadLimit: jobs.payloadLimit, operations: OPERATIONS });
  }

  /** @throws OptionsError with all problems: without tokens or a guard, for an unknown option. */
  static forRoot(options: JobsAdminOptions): DynamicModule {
    const parsed = parseAdminOptions(options);
    const { path, imports, redact, payloads } = parsed;
    return {
      module: JobsAdminModule,
      imports: [...imports, RouterModule.register([{ path, module: JobsAdminModule }])],
      controllers: [
        RootController,
        StatsController,
        EventsController,
        JobsController,
        DeadLettersController,
        QueuesController,
        SchedulesController,
        WorkersController,
        ProcessController,
        BulkController,
        AuditController,
        OpenApiController,
      ],
      providers: [
        { provide: ADMIN_PATH, useValue: path },
        { provide: Failures, useFactory: () => new Failures() },
        Snapshot,
        News,
        { provide: Payloads, useValue: new Payloads(new Redaction(redact), payloads) },
        ...doorOf(parsed),
      ],
      // What ForRole asks for in the module of its route.
      exports: [ADMIN_DOOR, Failures],
    };
  }

  /** Bulk operations are worked off where operators are. */
  onApplicationBootstrap(): void {
    this.bulk?.watch();
  }

  onModuleInit(): void {
    if (this.door instanceof LoopbackDoor)
      new Logger("JobsAdmin").warn(
        "DEVELOPMENT: the admin API asks nobody for a credential, and everybody on this machine is an admin. It answers to this machine only; give it tokens or a guard anywhere else.",
      );
  }
}

function doorOf({ tokens, guard, operator }: ParsedAdminOptions): Provider[] {
  if (tokens)
    return [
      {
        provide: ADMIN_DOOR,
        inject: [HttpAdapterHost],
        useFactory: (host: HttpAdapterHost) => new TokenDoor(tokens, host),
      },
    ];
  if (!guard) return [{ provide: ADMIN_DOOR, useValue: new LoopbackDoor() }];
  return [
    typeof guard === "function"
      ? { provide: ADMIN_GUARD, useClass: guard }
      : { provide: ADMIN_GUARD, useValue: guard },
    {
      provide: ADMIN_DOOR,
      inject: [ADMIN_GUARD],
      useFactory: (own: ConstructorParameters<typeof GuardDoor>[0]) => new GuardDoor(own, operator),
    },
  ];
}
