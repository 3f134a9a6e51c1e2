import { type Kysely, sql } from "kysely";

export interface Tables {
  account: { email: string };
}

export async function register(db: Kysely<Tables>, email: string): Promise<string> {
  return await db.transaction().execute(async (tx) => {
    const payload = JSON.stringify({ email });
    const { rows } = await sql<{ id: string; deduplicated: boolean }>`
      select id, deduplicated from jobs.enqueue('mail.welcome', ${payload})`.execute(tx);
    await tx.insertInto("account").values({ email }).execute();
    return rows[0]!.id;
  });
}
