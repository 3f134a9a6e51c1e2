import type pg from "pg";

/** A connection in the user's hands, until it is taken back. */
export interface Lent {
  client: pg.ClientBase;
  takeBack(): void;
}

/**
 * A face of the client: once it is taken back it refuses whatever a body that was not awaited still sends, or that
 * would land in the transaction of another job.
 */
export function lend(client: pg.Client): Lent {
  let over = false;
  const face = new Proxy(client, {
    get(target, name) {
      if (over && (name === "query" || name === "end" || name === "connect"))
        return async () => await Promise.reject(new Error("the transaction of this job is over"));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { client: face, takeBack: () => (over = true) };
}

/** `T` inside a transaction, `E` in a failed one, `I` in none; undefined when the connection does not say. */
export async function transactionStatus(tx: unknown): Promise<string | undefined> {
  const { queryRunner } = tx as { queryRunner?: { connect?: () => Promise<unknown> } };
  const client = (queryRunner?.connect ? await queryRunner.connect() : tx) as {
    getTransactionStatus?: () => string | null;
  };
  return typeof client.getTransactionStatus === "function"
    ? (client.getTransactionStatus() ?? undefined)
    : undefined;
}
