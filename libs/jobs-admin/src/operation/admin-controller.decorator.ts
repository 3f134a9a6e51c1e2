import { Controller, UseFilters, UseGuards, applyDecorators } from "@nestjs/common";
import { AccessGuard } from "../auth/access.guard.js";
import { ProblemFilter } from "../problem.filter.js";
import { InputGuard } from "../request/input.guard.js";

/** A controller of this API; its routes have {@link Serves}. */
export const AdminController = (): ClassDecorator =>
  applyDecorators(Controller(), UseGuards(AccessGuard, InputGuard), UseFilters(ProblemFilter));
