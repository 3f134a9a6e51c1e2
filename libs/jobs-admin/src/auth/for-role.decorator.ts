import { SetMetadata, UseFilters, UseGuards, applyDecorators } from "@nestjs/common";
import { OPERATION } from "../operation/operation.js";
import { ProblemFilter } from "../problem.filter.js";
import { AccessGuard } from "./access.guard.js";
import type { AdminRole } from "./roles.js";

/**
 * Puts a route of your own behind the door of the admin API, for whoever has this role: in a module that imports
 * `JobsAdminModule.forRoot`.
 */
export const ForRole = (role: AdminRole): MethodDecorator =>
  applyDecorators(
    SetMetadata(OPERATION, { role }),
    UseGuards(AccessGuard),
    UseFilters(ProblemFilter),
  );
