import type { DataSource } from "typeorm";

export async function register(dataSource: DataSource, email: string): Promise<string> {
  return await dataSource.transaction(async (manager) => {
    const [job] = await manager.query<{ id: string; deduplicated: boolean }[]>(
      "select id, deduplicated from jobs.enqueue($1, $2)",
      ["mail.welcome", JSON.stringify({ email })],
    );
    await manager.query("insert into account (email) values ($1)", [email]);
    return job!.id;
  });
}
