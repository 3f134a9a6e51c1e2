/**
 * What the server has said last to the connection behind a client of `pg` (8.16 or newer), or a QueryRunner or an
 * EntityManager of TypeORM: `T` inside a transaction, `E` in a failed one, `I` in none, null before it is connected.
 * What is still in line does not count. Undefined when the connection does not say.
 */
export function transactionStatus(tx: object): string | null | undefined {
  const runner = (tx as { queryRunner?: object }).queryRunner ?? tx;
  // Not by connect(), whose answer comes later.
  const { databaseConnection = tx } = runner as { databaseConnection?: object };
  const { getTransactionStatus } = databaseConnection as {
    getTransactionStatus?: () => string | null;
  };
  return typeof getTransactionStatus === "function"
    ? getTransactionStatus.call(databaseConnection)
    : undefined;
}
