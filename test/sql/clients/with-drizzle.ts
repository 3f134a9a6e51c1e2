import { sql } from "drizzle-orm";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import { pgTable, text } from "drizzle-orm/pg-core";

const account = pgTable("account", { email: text().primaryKey() });

export async function register(db: NodePgDatabase, email: string): Promise<string> {
  return await db.transaction(async (tx) => {
    const payload = JSON.stringify({ email });
    const { rows } = await tx.execute<{ id: string; deduplicated: boolean }>(
      sql`select id, deduplicated from jobs.enqueue('mail.welcome', ${payload})`,
    );
    await tx.insert(account).values({ email });
    return rows[0]!.id;
  });
}
