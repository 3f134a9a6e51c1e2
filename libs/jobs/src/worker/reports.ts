import { lacking } from "../pg/encoding.js";
import { ConnectionLostError } from "../pg/session.js";
import { isCheckViolation, isDataError, isLockTimeout } from "../pg/sqlstate.js";
import type { Runner } from "../pg/statement.js";
import type { Store } from "../store/store.js";
import { report } from "../store/transitions/report.js";
import type { Attempt } from "./attempt.js";
import { monotonic } from "./held.js";
import type { Report, Unwritten } from "./report.js";

// Progress and log lines of what runs here: gathered over all jobs, written once a second, and before a settle.

const EVERY_MS = 1_000;
const MAX_BATCH = 200;
const MAX_CHARACTERS = 4_000_000;
const ASK_AGAIN_MS = 10_000;

/** An attempt that has said something. */
type Reporter = Attempt & { report: Report };

export interface ReportsPorts {
  /** The connection that settles: what is sent before a settle is written before it. */
  session: Runner;
  /** Whether the schema has their tables; rejects when the database does not answer. */
  ready(): Promise<boolean>;
  makePartitions(): Promise<unknown>;
  trouble(message: string, error: unknown): void;
}

export class Reports {
  readonly #waiting = new Set<Reporter>();
  #timer: NodeJS.Timeout | undefined;
  #ticking: Promise<void> | undefined;
  #stopped = false;

  constructor(private readonly ports: ReportsPorts) {}

  /** Whether anything is to be written, or being so. */
  get any(): boolean {
    return this.#waiting.size > 0 || this.#ticking !== undefined;
  }

  /** This attempt has said something. */
  add(attempt: Reporter): void {
    if (this.#stopped) return;
    this.#waiting.add(attempt);
    this.#timer ??= setTimeout(() => {
      this.#ticking = this.#tick();
    }, EVERY_MS).unref();
  }

  /**
   * Writes what these have said, before they are settled. Rejects only when the connection is lost or somebody has
   * locked one of them, like their settle: what cannot be written must not keep a job from ending.
   */
  async before(attempts: readonly Attempt[]): Promise<void> {
    // It may bring back what it could not write.
    await this.#ticking;
    const write = async () => {
      const some = attempts.filter((one): one is Reporter => this.#waiting.has(one as Reporter));
      some.forEach((attempt) => this.#waiting.delete(attempt));
      if (some.length > 0) await this.#write(some, true);
    };
    try {
      await write().catch(async (error: unknown) => {
        if (isOfTheSettle(error)) throw error;
        await write();
      });
    } catch (error) {
      if (isOfTheSettle(error)) throw error;
      this.ports.trouble("progress and logs of jobs that end are not written", error);
    }
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#waiting.clear();
  }

  async #tick(): Promise<void> {
    const some = [...this.#waiting];
    this.#waiting.clear();
    try {
      await this.#write(some, false);
    } catch (error) {
      this.ports.trouble("progress and logs of jobs are not written yet", error);
    }
    this.#ticking = undefined;
    this.#timer = undefined;
    const [one] = this.#waiting;
    if (one) this.add(one);
  }

  async #write(attempts: readonly Reporter[], last: boolean): Promise<void> {
    // Whoever lost its job in the meantime has nothing to say any more.
    const all = attempts.filter(({ lost, phase }) => !lost && phase !== "over");
    try {
      if (await this.ports.ready()) {
        for (const batch of batches(all)) await this.#send(batch, last);
      } else if (!last) {
        // They are bounded, and can be written yet when the schema is brought up to date while the job runs.
        all.forEach((attempt) => this.#waiting.add(attempt));
      }
    } catch (error) {
      for (const attempt of all) if (!attempt.report.empty) this.#waiting.add(attempt);
      if (isCheckViolation(error)) await this.ports.makePartitions();
      throw error;
    }
  }

  async #send(batch: readonly Reporter[], last: boolean): Promise<void> {
    const [{ claim: first }] = batch as [Reporter, ...Reporter[]];
    const now = monotonic();
    const taken = batch.map((attempt) => attempt.report.take());
    try {
      const written = await report(
        this.ports.session,
        first.queueId,
        first.worker,
        batch.map(({ claim }, index) => ({
          id: claim.id,
          attempt: claim.attempt,
          progress: taken[index]!.progress,
          lines: taken[index]!.lines.map(({ at, ...line }) => ({ ...line, ageMs: now - at })),
        })),
        { last, again: batch.some((attempt) => attempt.report.uncertain) },
      );
      for (const [index, attempt] of batch.entries()) {
        if (written.has(attempt.claim.id)) attempt.report.uncertain = false;
        // Locked by somebody for the moment, or not ours any more: its lease or its settle will tell.
        else if (!last) this.#putBack(attempt, taken[index]!);
      }
    } catch (error) {
      if (!isDataError(error) || isCheckViolation(error)) {
        const sent = error instanceof ConnectionLostError && error.sent;
        for (const [index, attempt] of batch.entries()) {
          attempt.report.uncertain ||= sent;
          this.#putBack(attempt, taken[index]!);
        }
        throw error;
      }
      const [{ report: only }] = batch as [Reporter];
      const encoding = batch.length === 1 ? lacking(error)?.encoding : undefined;
      if (encoding !== undefined && only.encoding === undefined) only.encoding = encoding;
      else if (batch.length === 1)
        return this.ports.trouble("progress and logs of a job could not be stored", error);
      // One of them is poisoned: apart from the others it harms none. Or it is sent once more as it fits.
      for (const [index, attempt] of batch.entries()) {
        this.#putBack(attempt, taken[index]!);
        this.#waiting.delete(attempt);
        await this.#send([attempt], last);
      }
    }
  }

  #putBack(attempt: Reporter, unwritten: Unwritten): void {
    attempt.report.putBack(unwritten);
    this.#waiting.add(attempt);
  }
}

/** The settle that follows would fail of it too. */
const isOfTheSettle = (error: unknown): boolean =>
  error instanceof ConnectionLostError || isLockTimeout(error);

/** One statement writes for one queue and worker id. */
function batches(attempts: readonly Reporter[]): Reporter[][] {
  const open = new Map<string, { batch: Reporter[]; characters: number }>();
  const all: Reporter[][] = [];
  for (const attempt of attempts) {
    const { queueId, worker } = attempt.claim;
    const name = `${queueId} ${worker}`;
    let one = open.get(name);
    const { size } = attempt.report;
    if (!one || one.batch.length === MAX_BATCH || one.characters + size > MAX_CHARACTERS) {
      open.set(name, (one = { batch: [], characters: 0 }));
      all.push(one.batch);
    }
    one.batch.push(attempt);
    one.characters += size;
  }
  return all;
}

/** Whether progress and logs have their tables; a schema that is brought up to date meanwhile is noticed. */
export function reportsReady(
  store: Store,
  warn: (message: string) => void,
): () => Promise<boolean> {
  let askedAt = Number.NEGATIVE_INFINITY;
  let warned = false;
  return async () => {
    if (store.has(2)) return true;
    if (performance.now() - askedAt < ASK_AGAIN_MS) return false;
    if (await store.offers(2)) return true;
    askedAt = performance.now();
    if (!warned) warn('progress and logs of jobs are not written: run "pg-jobs migrate"');
    warned = true;
    return false;
  };
}
