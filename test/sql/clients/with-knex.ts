import type { Knex } from "knex";

export async function register(knex: Knex, email: string): Promise<string> {
  return await knex.transaction(async (tx) => {
    const { rows } = await tx.raw<{ rows: { id: string; deduplicated: boolean }[] }>(
      "select id, deduplicated from jobs.enqueue(?, ?)",
      ["mail.welcome", JSON.stringify({ email })],
    );
    await tx("account").insert({ email });
    return rows[0]!.id;
  });
}
