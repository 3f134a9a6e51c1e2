import { Controller, Get, UseFilters, UseGuards } from "@nestjs/common";
import { AdminGuard } from "./admin.guard.js";
import { ProblemFilter } from "./problem.filter.js";

/** What is here, for whoever opens the address that `npm start` prints. */
@Controller()
@UseGuards(AdminGuard)
@UseFilters(ProblemFilter)
export class RootController {
  @Get()
  routes(): { routes: string[] } {
    return { routes: ["GET stats", "GET jobs/:id", "POST jobs/:id/requeue"] };
  }
}
