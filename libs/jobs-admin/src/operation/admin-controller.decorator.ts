import {
  Controller,
  UseFilters,
  UseGuards,
  UseInterceptors,
  applyDecorators,
} from "@nestjs/common";
import { DeedsInterceptor } from "../audit/deeds.interceptor.js";
import { AccessGuard } from "../auth/access.guard.js";
import { ProblemFilter } from "../problem.filter.js";
import { InputGuard } from "../request/input.guard.js";

/** A controller of this API; its routes have {@link Serves}. */
export const AdminController = (): ClassDecorator =>
  applyDecorators(
    Controller(),
    UseGuards(AccessGuard, InputGuard),
    UseInterceptors(DeedsInterceptor),
    UseFilters(ProblemFilter),
  );
