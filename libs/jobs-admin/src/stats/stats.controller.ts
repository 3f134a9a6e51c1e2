import { AdminController } from "../operation/admin-controller.decorator.js";
import { Serves } from "../operation/operation.js";
import { Snapshot, type Stats } from "./snapshot.js";
import { getStats } from "./stats.operations.js";

@AdminController()
export class StatsController {
  constructor(private readonly snapshot: Snapshot) {}

  @Serves(getStats)
  async stats(): Promise<Stats> {
    return await this.snapshot.stats();
  }
}
