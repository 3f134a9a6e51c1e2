import type postgres from "postgres";

export async function register(sql: postgres.Sql, email: string): Promise<string> {
  return await sql.begin(async (tx) => {
    const [job] = await tx<{ id: string; deduplicated: boolean }[]>`
      select id, deduplicated from jobs.enqueue('mail.welcome', ${tx.json({ email })})`;
    await tx`insert into account (email) values (${email})`;
    return job!.id;
  });
}
