import { randomBytes } from "node:crypto";
import type pg from "pg";
import type { TransactionSource } from "../handler/job-context.js";
import {
  LeaseLostError,
  OptionsError,
  ShutdownError,
  TransactionEndedError,
  TransactionFailedError,
} from "../job/errors.js";
import { storedResult, unstorable } from "../job/stored-result.js";
import { isVerdict } from "../job/verdict.js";
import { endBackend } from "../pg/backend.js";
import { BEGIN, type Clients, NoneToLendError } from "../pg/clients.js";
import { Translation, lacking } from "../pg/encoding.js";
import type { Session } from "../pg/session.js";
import {
  isCheckViolation,
  isFatal,
  isInFailedTransaction,
  isLockTimeout,
  isMissingSchema,
  sqlState,
} from "../pg/sqlstate.js";
import type { Runner } from "../pg/statement.js";
import { transactionStatus } from "../pg/transaction-status.js";
import type { Claim } from "../store/transitions/claim.js";
import { markLocal } from "../store/transitions/mark.js";
import type { Writes } from "../store/transitions/noted.js";
import { succeedWithin } from "../store/transitions/succeed.js";
import { type Claimant, enter, outcome } from "../store/transitions/transact.js";
import { ensurePartitions } from "../store/upkeep/partitions.js";
import { NoReplyError, Unanswered, abortable, replied } from "./answers.js";
import type { Attempt } from "./attempt.js";
import { type Lent, lend } from "./lent.js";
import type { Reports } from "./reports.js";

// job.transaction(): the user's writes and the success of the attempt in one transaction. The success is its last
// statement; nothing of the job is locked before, unless their transaction has a snapshot of its own. Once that has been
// sent, only the database knows what became of it: whatever goes wrong from then on is looked up, never guessed.

/** The attempts, as far as a transaction settles them. */
export interface TransactionListener {
  /** From now on only the transaction settles this attempt; answers false when it is settled or lost already. */
  settling(attempt: Attempt): boolean;
  committed(attempt: Attempt): void;
  /** Nothing was written: the attempt goes on. */
  notCommitted(attempt: Attempt): void;
  lost(attempt: Attempt): void;
  /** Something threw when all was committed. */
  threwLate(attempt: Attempt, error: unknown): void;
  trouble(message: string, attempt?: Attempt): void;
}

export interface TransactionPorts {
  clients: Clients;
  /** Where settles go: outcomes are looked up there. */
  settles: Session;
  front: Runner;
  listener: TransactionListener;
  /** What the attempt has said of itself is written before its end is. */
  reports: Reports;
  /** Runs our statements on somebody's transaction. */
  on(tx: { query(sql: string, values?: unknown[]): Promise<unknown> }): Runner;
  /** In bytes. */
  resultLimit: number;
  /** How settling is written in this queue. */
  writes(queueId: number): Writes;
  /** As whom this process claims. */
  claimant(worker: number): Claimant;
}

/** So much longer than its attempt may a transaction of somebody else's connection be idle. */
const BEYOND_MS = 10_000;
const LOCK_MS = 30_000;
const MAX_PAUSE_MS = 2_000;
const MAX_ROUNDS = 3;

export class Transactions {
  #closed = false;
  readonly #translation: Translation;

  constructor(private readonly ports: TransactionPorts) {
    this.#translation = new Translation(ports.settles);
  }

  /** What is not decided yet stays so: the lease will tell. */
  abandon(): void {
    this.#closed = true;
  }

  async run<M, T>(
    attempt: Attempt,
    source: TransactionSource<M> | undefined,
    fn: (tx: M) => Promise<T>,
  ): Promise<T> {
    if (typeof fn !== "function")
      throw refused("fn", "a function that gets the connection", typeof fn);
    if (source) refuseWhatIsNone(source);
    const settled: { value?: T; claim?: Claim; awaited?: readonly string[] } = {};
    let thrown: { error: unknown } | undefined;
    const unanswered = new Unanswered();
    /** Runs inside the transaction; what it throws rolls back. */
    const settle = async (tx: Queryable, mark: string, work: () => Promise<T>) => {
      // It may have waited for a connection until the attempt was over.
      attempt.signal.throwIfAborted();
      if (!mayWork(attempt)) throw new LeaseLostError(attempt.id, attempt.attempt);
      const value = await work();
      // Returned or thrown, it means the same.
      if (isVerdict(value)) throw value;
      attempt.signal.throwIfAborted();
      unanswered.start();
      settled.claim = await this.#succeed(
        attempt,
        tx,
        mark,
        value,
        (ids) => (settled.awaited = ids),
      );
      settled.value = value;
      return value;
    };
    try {
      await (source
        ? unanswered.race(
            source.transaction((tx) => this.#onTheirs(attempt, tx, () => fn(tx), settle)),
          )
        : this.#onOurs(attempt, fn as unknown as (tx: pg.ClientBase) => Promise<T>, settle));
      if (!settled.claim)
        throw refused("source", "transaction(run) to call run and to wait for it", "it did not");
    } catch (error) {
      thrown = { error };
    } finally {
      unanswered.stop();
    }
    // To the commit of a failed transaction PostgreSQL answers that it has rolled back, which is no error: a source does
    // not see it. Of our own connection it has been seen.
    if (thrown || source) await this.#verify(attempt, settled.claim, thrown);
    this.ports.listener.committed(attempt);
    if (settled.awaited) this.ports.writes(settled.claim!.queueId).answered?.(settled.awaited);
    // It has committed all the same. Of our own connection that is a lost answer, of theirs perhaps a subscriber.
    if (source && thrown) this.ports.listener.threwLate(attempt, thrown.error);
    return settled.value as T;
  }

  async #onTheirs<M, T>(
    attempt: Attempt,
    tx: M,
    work: () => Promise<T>,
    settle: Settle<T>,
  ): Promise<T> {
    if (typeof (tx as Partial<Queryable> | null)?.query !== "function") {
      throw refused(
        "source",
        "transaction(run) to give something with query(sql, params), as a TypeORM DataSource does",
        "something without",
      );
    }
    const mark = newMark();
    await this.#enter(attempt, tx as Queryable, mark);
    return await settle(tx as Queryable, mark, work);
  }

  async #enter(attempt: Attempt, tx: Queryable, mark: string): Promise<void> {
    const { timeoutMs, claim } = attempt;
    const bounds = { statementMs: timeoutMs + BEYOND_MS, lockMs: LOCK_MS };
    const expected = "a source for the database that has the jobs";
    try {
      const runner = this.ports.on(tx);
      const { ours, database, lost } = await enter(
        runner,
        this.ports.claimant(claim.worker),
        claim.queueId,
        claim,
        bounds,
        mark,
      );
      if (!ours) throw refused("source", expected, `another one, "${database}"`);
      if (lost) throw new LeaseLostError(attempt.id, claim.attempt);
    } catch (error) {
      if (!isMissingSchema(error)) throw error;
      throw refused("source", expected, "one without their tables");
    }
  }

  async #onOurs<T>(
    attempt: Attempt,
    fn: (tx: pg.ClientBase) => Promise<T>,
    settle: Settle<T>,
  ): Promise<void> {
    const { clients, front } = this.ports;
    const { signal } = attempt;
    const mark = newMark();
    // By this name its server process is found, behind a pooler too.
    const name = `pg-jobs transaction ${mark}`;
    const client = await this.#begun(signal, name, mark);
    let given = false;
    const giveUp = () => {
      if (given) return;
      given = true;
      clients.drop(client);
      // It may be in the middle of a long statement, or of ours.
      endBackend(front, { name, until: "-infinity" }).catch(() => undefined);
    };
    const lent: Lent = lend(client, attempt.id);
    const giveBack = () => (lent.takeBack() ? clients.give(client) : clients.drop(client));
    try {
      const work = async () => {
        signal.addEventListener("abort", giveUp, { once: true });
        try {
          return await abortable(signal, fn(lent.client));
        } finally {
          signal.removeEventListener("abort", giveUp);
          lent.takeBack();
        }
      };
      await settle(client, mark, work).catch((error: unknown) => {
        if (error instanceof TransactionFailedError && lent.failure) error.cause = lent.failure;
        throw error;
      });
      const ended = await replied(clients.end(client, "commit"), giveUp);
      if (ended !== "commit") throw new TransactionFailedError(attempt.id, { atCommit: true });
      giveBack();
    } catch (error) {
      if (signal.aborted || error instanceof NoReplyError) giveUp();
      else await replied(clients.end(client, "rollback"), giveUp).then(giveBack, giveUp);
      throw error;
    }
  }

  /** A connection that was kept may have died meanwhile: then another one begins. */
  async #begun(signal: AbortSignal, name: string, mark: string): Promise<pg.Client> {
    const { clients } = this.ports;
    for (let round = 1; ; round++) {
      const client = await this.#taken(signal);
      try {
        const begin = `${BEGIN}; set local application_name = '${name}'; ${markLocal(mark)}`;
        await replied(client.query(begin), () => clients.drop(client));
        signal.throwIfAborted();
        return client;
      } catch (error) {
        clients.drop(client);
        const broken = sqlState(error) === undefined || isFatal(error);
        if (round === MAX_ROUNDS || signal.aborted || !broken) throw error;
      }
    }
  }

  async #taken(signal: AbortSignal): Promise<pg.Client> {
    try {
      return await this.ports.clients.take(signal);
    } catch (error) {
      if (!(error instanceof NoneToLendError)) throw error;
      throw new OptionsError("options of JobsModule.forRoot", [
        "connections: expected one more than the worker itself needs for job.transaction(fn), found none left; " +
          "raise it, or pass a DataSource: job.transaction(dataSource, fn)",
      ]);
    }
  }

  /** The last statement before the commit; answers the claim that it has settled. */
  async #succeed(
    attempt: Attempt,
    tx: Queryable,
    mark: string,
    value: unknown,
    answered: Writes["answered"],
  ): Promise<Claim> {
    const { listener } = this.ports;
    if (transactionStatus(tx) === "I") throw new TransactionEndedError(attempt.id);
    const text = await this.#storable(attempt, value);
    // On another connection, and it locks nothing that our statement waits for. This transaction itself may have
    // locked the job.
    if (this.ports.reports.any)
      await this.ports.reports.before([attempt]).catch((error: unknown) => {
        if (!isLockTimeout(error)) throw error;
        listener.trouble(
          "progress and logs of a job that ends are not written: it is locked",
          attempt,
        );
      });
    if (!listener.settling(attempt)) throw new LeaseLostError(attempt.id, attempt.attempt);
    try {
      for (let round = 1; round <= MAX_ROUNDS; round++) {
        const { claim } = attempt;
        const fence = { id: claim.id, attempt: claim.attempt, result: text };
        const done = await replied(
          succeedWithin(this.ports.on(tx), claim.queueId, claim.worker, fence, mark, {
            ...this.ports.writes(claim.queueId),
            answered,
          }),
        );
        if (done === "finished") return claim;
        if (done === "ended") throw new TransactionEndedError(attempt.id);
        // The process was handed the same run again meanwhile.
        if (attempt.claim === claim) break;
      }
    } catch (error) {
      if (isInFailedTransaction(error))
        throw new TransactionFailedError(attempt.id, { cause: error });
      // No partition for today: the chore that makes them ahead has not run for a week. The next attempt finds it.
      if (isCheckViolation(error)) await ensurePartitions(this.ports.settles);
      throw error;
    }
    throw new LeaseLostError(attempt.id, attempt.attempt);
  }

  /** The text of the result; null for none. */
  async #storable(attempt: Attempt, value: unknown): Promise<string | null> {
    const { listener, resultLimit } = this.ports;
    const { text, problem } = storedResult(value, resultLimit);
    if (problem !== undefined) listener.trouble(`the result is not stored: ${problem}`, attempt);
    if (text === null) return null;
    // Refused by the statement that writes it, it would take the whole transaction with it.
    const refusal = await this.#translation.refusal(text);
    if (!refusal) return text;
    listener.trouble(`PostgreSQL refused to store it: ${refusal.message}`, attempt);
    return unstorable(lacking(refusal)?.encoding);
  }

  /** Throws, unless the transaction has committed, whatever it has thrown. */
  async #verify(
    attempt: Attempt,
    claim: Claim | undefined,
    thrown: { error: unknown } | undefined,
  ): Promise<void> {
    const { listener } = this.ports;
    const became = claim ? await this.#outcome(claim) : "rolled-back";
    if (became === "committed") return;
    if (became === "open") throw thrown ? thrown.error : new ShutdownError();
    const mine = attempt.settling;
    listener.notCommitted(attempt);
    const error = thrown
      ? thrown.error
      : new TransactionFailedError(attempt.id, { atCommit: true });
    const lost = became === "lost" || error instanceof LeaseLostError;
    if (mine && lost) listener.lost(attempt);
    throw became === "lost" ? new LeaseLostError(attempt.id, attempt.attempt) : error;
  }

  async #outcome(claim: Claim): Promise<"committed" | "rolled-back" | "lost" | "open"> {
    const fence = { id: claim.id, attempt: claim.attempt };
    for (let pause = 20; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      try {
        const { keep = true } = this.ports.writes(claim.queueId);
        const became = await outcome(this.ports.settles, claim.queueId, claim.worker, fence, keep);
        if (became !== "open") return became;
      } catch {
        // The database is away, or busy with itself: it is asked again.
      }
      if (this.#closed) return "open";
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

interface Queryable {
  query(sql: string, values?: unknown[]): Promise<unknown>;
}

type Settle<T> = (tx: Queryable, mark: string, work: () => Promise<T>) => Promise<T>;

const newMark = () => randomBytes(6).toString("hex");

/** A source may run its transaction again, when that has sent the success already. */
const mayWork = ({ phase, settling }: Attempt): boolean => phase === "running" || settling;

const refused = (what: string, expected: string, found: string): OptionsError =>
  new OptionsError("job.transaction(source, fn)", [
    `${what}: expected ${expected}; found ${found}`,
  ]);

function refuseWhatIsNone(source: object): void {
  const expected = "a TypeORM DataSource for PostgreSQL, or what has transaction(run) like it";
  const { transaction, options, queryRunner } = source as {
    transaction?: unknown;
    options?: { type?: unknown };
    queryRunner?: { isTransactionActive?: boolean };
  };
  const found =
    typeof transaction !== "function"
      ? "something without transaction()"
      : typeof options?.type === "string" && options.type !== "postgres"
        ? `a DataSource of type '${options.type}'`
        : queryRunner?.isTransactionActive
          ? "an EntityManager inside a transaction, whose commit would come later"
          : undefined;
  if (found) throw refused("source", expected, found);
}
