import {
  type CanActivate,
  type DynamicModule,
  Inject,
  Module,
  type ModuleMetadata,
  type NestModule,
  Optional,
  type Type,
} from "@nestjs/common";
import { HttpAdapterHost, RouterModule } from "@nestjs/core";
import { JobQueue, OptionsCheck, OptionsError } from "nestjs-pg-jobs";
import { ADMIN_GUARD, AdminGuard } from "./admin.guard.js";
import { JobsController } from "./jobs/jobs.controller.js";
import { keepBodyTroubles, readRequeueBodies } from "./requeue-body.js";
import { RootController } from "./root.controller.js";
import { StatsController } from "./stats/stats.controller.js";

/** The options of {@link JobsAdminModule.forRoot}. */
export interface JobsAdminOptions {
  /** Decides who may use it: a class, made with what `imports` exports, or an instance. Never absent. */
  guard: Type<CanActivate> | CanActivate;
  /** The modules that export what the guard injects; default none. */
  imports?: NonNullable<ModuleMetadata["imports"]>;
  /** Where it is mounted; default `'admin'`. */
  path?: string;
}

const ADMIN_PATH = "nestjs-pg-jobs-admin:path";

const OPTIONS = ["guard", "imports", "path"];

/** The REST API for operators; needs `JobsModule.forRoot` beside it. Closed: without a guard it does not start. */
@Module({})
export class JobsAdminModule implements NestModule {
  constructor(
    private readonly host: HttpAdapterHost,
    @Inject(ADMIN_PATH) private readonly path: string,
    @Optional() @Inject(JobQueue) jobs: JobQueue | undefined,
  ) {
    if (!jobs)
      throw new OptionsError("set-up of JobsAdminModule", [
        "JobsModule.forRoot: expected in the same app, found none; import JobsModule.forRoot({ connection: { url } }) beside it",
      ]);
    // Here and not later: the app registers its parsers once everything is made.
    readRequeueBodies(host, path, jobs.payloadLimit);
  }

  /** @throws OptionsError without a guard, or for an unknown option. */
  static forRoot(options: JobsAdminOptions): DynamicModule {
    const { guard, imports = [], path = "admin" } = checked(options);
    return {
      module: JobsAdminModule,
      imports: [...imports, RouterModule.register([{ path, module: JobsAdminModule }])],
      controllers: [RootController, StatsController, JobsController],
      providers: [
        AdminGuard,
        { provide: ADMIN_PATH, useValue: path },
        typeof guard === "function"
          ? { provide: ADMIN_GUARD, useClass: guard }
          : { provide: ADMIN_GUARD, useValue: guard },
      ],
    };
  }

  /** Called between the body parsers of the app and its routes. */
  configure(): void {
    keepBodyTroubles(this.host, this.path);
  }
}

function checked(options: JobsAdminOptions): JobsAdminOptions {
  const given: Partial<JobsAdminOptions> = options ?? {};
  const check = new OptionsCheck("options of JobsAdminModule.forRoot");
  const guard = check.object("", given, OPTIONS) ? given.guard : undefined;
  const guards =
    typeof guard === "function"
      ? (guard.prototype as Partial<CanActivate>)
      : (guard as CanActivate);
  if (typeof guards?.canActivate !== "function")
    check.add(
      "guard: expected a guard (a class or an instance with canActivate), found none: the admin API is closed by default",
    );
  check.done();
  return options;
}
