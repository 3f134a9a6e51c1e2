import { Injectable } from "@nestjs/common";
import { HealthIndicatorService } from "@nestjs/terminus";
import { DataSource } from "typeorm";

/** Whether the app's own pool gets an answer. */
@Injectable()
export class DatabaseHealthIndicator {
  constructor(
    private readonly health: HealthIndicatorService,
    private readonly dataSource: DataSource,
  ) {}

  async ping<const K extends string>(key: K) {
    const session = this.health.check(key);
    try {
      await this.dataSource.query("select 1");
      return session.up();
    } catch {
      return session.down({ reason: "the database does not answer" });
    }
  }
}
