import type { MigrationInterface, QueryRunner } from "typeorm";

export class CreateFeedItem1764000000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table samples.feed_item (
        source text,
        id text,
        title text not null,
        job_id text not null,
        stored_at timestamptz not null default now(),
        primary key (source, id)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query("drop table samples.feed_item");
  }
}
