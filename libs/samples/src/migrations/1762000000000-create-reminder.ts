import type { MigrationInterface, QueryRunner } from "typeorm";

export class CreateReminder1762000000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table samples.reminder (
        id uuid primary key,
        recipient text not null,
        text text not null,
        state text not null default 'pending' check (state in ('pending', 'sent')),
        sent_at timestamptz,
        created_at timestamptz not null default now()
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query("drop table samples.reminder");
  }
}
