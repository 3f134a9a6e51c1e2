import { OptionsError, TransactionFailedError, TransactionOverError } from "../job/errors.js";
import { readable } from "../job/options-check.js";
import { isInFailedTransaction, sqlState } from "../pg/sqlstate.js";
import type { Row, Runner, Statement } from "../pg/statement.js";
import { transactionStatus } from "../pg/transaction-status.js";

/** Whatever runs SQL inside the caller's transaction: a TypeORM EntityManager or QueryRunner, a `pg` client. */
export interface TransactionLike {
  query(sql: string, params?: unknown[]): Promise<unknown>;
}

/** Runs our statements on the caller's transaction and brings rows into our shape. */
export function onTransaction(tx: TransactionLike, schema: string, where = "jobs.in(tx)"): Runner {
  readable(where, () => refuseWhatIsNone(tx, where));
  return {
    async run(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
      // It may have ended since: whoever keeps the queue longer must not enqueue outside of it.
      refuseWhatIsNone(tx, where);
      const result = await tx.query(statement.text(schema), values as unknown[]);
      return readable(where, () => rowsOf(result, where));
    },
  };
}

/** The same for `jobs.in(tx)`: what has become of the transaction is told by an error of ours. */
export function onCallersTransaction(tx: TransactionLike, schema: string): Runner {
  const runner = onTransaction(tx, schema);
  return {
    async run(statement, values) {
      try {
        return await runner.run(statement, values);
      } catch (error) {
        if (isInFailedTransaction(error)) throw new TransactionFailedError(null, { cause: error });
        if (isOfClosed(error)) throw new TransactionOverError(null, { cause: error });
        throw error;
      }
    },
  };
}

/** Words of `pg` and TypeORM for a connection that is closed, lost or given back; they have no code. */
const CLOSED =
  /is not queryable|^Connection terminated|^Query runner already released|query runner was already released/;

const isOfClosed = (error: unknown): boolean =>
  error instanceof Error && sqlState(error) === undefined && CLOSED.test(error.message);

function rowsOf(result: unknown, where: string): Row[] {
  const rows: unknown = Array.isArray(result)
    ? result
    : (result as { rows?: unknown } | null | undefined)?.rows;
  if (!Array.isArray(rows) || !rows.every((row) => typeof row === "object" && row !== null))
    throw new OptionsError(where, [
      "tx.query: expected rows, or a result that has them, found neither",
    ]);
  return (rows as object[]).map((row) =>
    Object.values(row).map((value) => (value === null ? null : String(value))),
  );
}

/** A pool or a DataSource would answer each query on any connection: the job would not be in the transaction. */
function refuseWhatIsNone(tx: TransactionLike, where: string): void {
  const expected = "a TypeORM EntityManager or QueryRunner, or a pg client, inside its transaction";
  const found =
    typeof tx?.query !== "function"
      ? "something without query()"
      : "totalCount" in tx
        ? "a pool, whose queries go to any connection"
        : "createQueryRunner" in tx
          ? "a DataSource, whose queries go to any connection"
          : isManagerOfNone(tx)
            ? "an EntityManager outside a transaction, whose queries go to any connection"
            : runnerOf(tx).isTransactionActive === false
              ? "a QueryRunner without an active transaction: call startTransaction() first, and enqueue before its commit"
              : isOutside(tx)
                ? "a connection outside a transaction: await its begin first, and enqueue before its commit or rollback"
                : undefined;
  if (found) throw new OptionsError(where, [`tx: expected ${expected}; found ${found}`]);
}

/** `dataSource.manager`: only those that a transaction made have a QueryRunner. */
const isManagerOfNone = (tx: TransactionLike): boolean =>
  "createQueryBuilder" in tx &&
  "getRepository" in tx &&
  (tx as { queryRunner?: unknown }).queryRunner === undefined;

/** Also beneath TypeORM, which does not know of a `rollback` that was sent as a query. */
function isOutside(tx: TransactionLike): boolean {
  const status = transactionStatus(tx);
  return status !== undefined && status !== "T" && status !== "E";
}

interface TypeOrmRunner {
  connection?: { subscribers?: object[] };
  isTransactionActive?: boolean;
}

/** The QueryRunner, when it is TypeORM's; `tx` itself otherwise. */
const runnerOf = (tx: TransactionLike): TypeOrmRunner =>
  ((tx as { queryRunner?: TypeOrmRunner }).queryRunner ?? tx) as TypeOrmRunner;

/** What to do once a transaction has committed. */
interface Waiting {
  readonly callbacks: Set<CommitCallback>;
  /** A savepoint was rolled back: what was done since it began has not happened. */
  inDoubt: boolean;
}

/** `inDoubt`: the transaction has committed, but perhaps not this part of it. */
type CommitCallback = (inDoubt: boolean) => void;

const waiting = new WeakMap<object, Waiting>();
const subscribed = new WeakSet<object>();

/** Calls back after the transaction has committed, when it is TypeORM's; answers false when nobody will tell us. */
export function afterCommit(tx: TransactionLike, callback: CommitCallback): boolean {
  const runner = runnerOf(tx);
  const subscribers = runner.connection?.subscribers;
  if (!runner.isTransactionActive || !Array.isArray(subscribers)) return false;
  if (!subscribed.has(subscribers)) {
    subscribed.add(subscribers);
    subscribers.push({
      afterTransactionCommit: ({ queryRunner }: { queryRunner: TypeOrmRunner }) =>
        release(queryRunner, true),
      afterTransactionRollback: ({ queryRunner }: { queryRunner: TypeOrmRunner }) =>
        release(queryRunner, false),
    });
  }
  const entry = waiting.get(runner) ?? { callbacks: new Set(), inDoubt: false };
  entry.callbacks.add(callback);
  waiting.set(runner, entry);
  return true;
}

function release(runner: TypeOrmRunner, committed: boolean): void {
  const entry = waiting.get(runner);
  if (!entry) return;
  // Savepoints are told of in the same way; what counts is the transaction around them.
  if (runner.isTransactionActive) {
    entry.inDoubt ||= !committed;
    return;
  }
  waiting.delete(runner);
  if (committed) for (const callback of entry.callbacks) callback(entry.inDoubt);
}
