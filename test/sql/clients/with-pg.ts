import type pg from "pg";

export async function register(client: pg.ClientBase, email: string): Promise<string> {
  await client.query("begin");
  try {
    const { rows } = await client.query<{ id: string; deduplicated: boolean }>(
      "select id, deduplicated from jobs.enqueue($1, $2)",
      ["mail.welcome", JSON.stringify({ email })],
    );
    await client.query("insert into account (email) values ($1)", [email]);
    await client.query("commit");
    return rows[0]!.id;
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}
