import type { MigrationInterface, QueryRunner } from "typeorm";

export class CreateRecord1763000000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table samples.record (
        id uuid primary key,
        text text not null,
        revision integer not null default 1
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query("drop table samples.record");
  }
}
