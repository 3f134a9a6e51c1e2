import type { MigrationInterface, QueryRunner } from "typeorm";

export class AddRecordSort1765000000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query("alter table samples.record add sort text not null default 'note'");
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query("alter table samples.record drop sort");
  }
}
