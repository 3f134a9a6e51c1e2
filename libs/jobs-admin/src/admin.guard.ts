import { type CanActivate, type ExecutionContext, Inject, Injectable } from "@nestjs/common";

/** The guard that `JobsAdminModule.forRoot` was given. */
export const ADMIN_GUARD = "nestjs-pg-jobs-admin:guard";

/** Stands before every route and asks the guard of the app. */
@Injectable()
export class AdminGuard implements CanActivate {
  constructor(@Inject(ADMIN_GUARD) private readonly guard: CanActivate) {}

  canActivate(context: ExecutionContext): ReturnType<CanActivate["canActivate"]> {
    return this.guard.canActivate(context);
  }
}
