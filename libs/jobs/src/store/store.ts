import { LaneLockedError, NotInEncodingError } from "../job/errors.js";
import type { Database } from "../pg/database.js";
import { lacking } from "../pg/encoding.js";
import { ConnectionLostError, type Session } from "../pg/session.js";
import { isLockTimeout, isMissingSchema } from "../pg/sqlstate.js";
import type { Row, Runner, Statement } from "../pg/statement.js";
import { NEEDED_VERSION, schemaVersion } from "./migrations/migrate.js";
import { JobIds } from "./queues/ids.js";
import { ensureLane, ensureQueue } from "./queues/lanes.js";
import { Deltas } from "./upkeep/deltas.js";

// What a process keeps of the tables besides a connection: which queue and lane a job goes to, a block of
// ids, where deltas lie, and whether the schema is there. It decides nothing; the database does.

/** The schema is missing (`found` = 0) or older than this release, or a feature of it, needs. */
export class SchemaOutdatedError extends Error {
  override readonly name = "SchemaOutdatedError";
  constructor(
    readonly found: number,
    readonly needed: number = NEEDED_VERSION,
    /** What was asked for, when the rest of the release works on the schema that was found. */
    readonly feature?: string,
  ) {
    super(found === 0 ? "the schema is missing" : `the schema has version ${found}`);
  }
}

export interface LaneAddress {
  queueId: number;
  lane: number;
}

export class Store implements Runner {
  readonly schema: string;
  readonly session: Session;
  readonly deltas = new Deltas();
  #ids = new JobIds();
  /** Replaced when it is forgotten: what is under way then must not come back into it. */
  #lanes = new Map<string, LaneAddress>();
  #resolving = new Map<string, Promise<LaneAddress>>();
  #version = 0;

  /** A lane was made: workers do not know it yet. */
  onLaneMade: (queueId: number) => void = () => {};

  #aside: Session | undefined;

  constructor(private readonly database: Database) {
    this.schema = database.schema;
    this.session = database.open("front");
  }

  /** Rejects with {@link SchemaOutdatedError} when the schema does not serve. */
  async run(statement: Statement, values?: readonly unknown[]): Promise<Row[]> {
    return await this.guard(() => this.session.run(statement, values));
  }

  /**
   * For reads that may take long, so that no enqueue waits behind them: on a connection of its own, opened with the first
   * of them if this leaves one to be lent; else on the one that all share.
   */
  readonly aside: Runner = {
    run: async (statement, values) => {
      const session = this.#besides();
      return await this.guard(() => session.run(statement, values));
    },
  };

  /** Several statements in one transaction, on the same connection as {@link aside}. */
  async asideTransaction<T>(fn: (run: Runner["run"]) => Promise<T>): Promise<T> {
    return await this.guard(() => this.#besides().transaction(fn));
  }

  /** Whether the server answers within so many ms; of the tables it says nothing. */
  async answers(ms: number): Promise<boolean> {
    return await this.database.answers(ms, this.session);
  }

  #besides(): Session {
    if (this.database.spare > 1 && !this.session.closed)
      this.#aside ??= this.database.open("aside");
    return this.#aside ?? this.session;
  }

  /** Several statements in one transaction, guarded in the same way. */
  async transaction<T>(fn: (run: Runner["run"]) => Promise<T>): Promise<T> {
    return await this.guard(() => this.session.transaction(fn));
  }

  /** Gives each job an id that has none yet: known before the insert, so that a lost commit can be repeated. */
  async number(jobs: readonly { id: string }[]): Promise<void> {
    const nameless = jobs.filter((job) => job.id === "");
    if (nameless.length === 0) return;
    const ids = await this.guard(() => this.#ids.take(this.session, nameless.length));
    nameless.forEach((job, index) => (job.id = ids[index]!));
  }

  /** Runs `work` once the schema is known to serve; when it has gone meanwhile, says so. */
  async guard<T>(work: () => Promise<T>): Promise<T> {
    try {
      if (this.#version === 0) await this.#readVersion();
      return await work();
    } catch (error) {
      if (!isMissingSchema(error)) throw error;
      this.forget();
      const found = await schemaVersion(this.session);
      throw found < NEEDED_VERSION ? new SchemaOutdatedError(found) : error;
    }
  }

  async #readVersion(): Promise<void> {
    const found = await schemaVersion(this.session);
    if (found < NEEDED_VERSION) throw new SchemaOutdatedError(found);
    this.#version = found;
  }

  /** Whether the schema has what version `needed` added; 0 = nothing is known yet. A newer one is noticed by {@link needs}. */
  has(needed: number): boolean {
    return this.#version >= needed;
  }

  /** The same; when it was not there so far, looks again. */
  async offers(needed: number): Promise<boolean> {
    if (this.#version < needed) await this.guard(() => this.#readVersion());
    return this.#version >= needed;
  }

  /** Rejects with {@link SchemaOutdatedError} when the schema lacks what `feature` stands on. */
  async needs(needed: number, feature: string): Promise<void> {
    if (this.#version >= needed) return;
    await this.#readVersion();
    if (this.#version < needed) throw new SchemaOutdatedError(this.#version, needed, feature);
  }

  /** What is cached may be of a schema that is gone. */
  forget(): void {
    this.#version = 0;
    this.#ids = new JobIds();
    this.deltas.forget();
    this.#lanes = new Map();
    this.#resolving = new Map();
  }

  /** This lane is another one by now, and so may be all that is cached; what was looked up since then stays. */
  forgetLane(queue: string, kind: string, priority: number, stale: LaneAddress): void {
    const known = this.knownLane(queue, kind, priority);
    if (known?.queueId === stale.queueId && known.lane === stale.lane) this.forget();
  }

  /** The cached lane; `undefined` before its first use. */
  knownLane(queue: string, kind: string, priority: number): LaneAddress | undefined {
    return this.#lanes.get(laneKey(queue, kind, priority));
  }

  /** The lane, made on our own connection if it is new. @throws LaneLockedError */
  async lane(queue: string, kind: string, priority: number): Promise<LaneAddress> {
    const key = laneKey(queue, kind, priority);
    const known = this.#lanes.get(key);
    if (known) return known;
    const under = this.#resolving;
    let resolving = under.get(key);
    if (!resolving) {
      resolving = this.guard(() => this.#makeLane(key, queue, kind, priority)).catch((error) => {
        const lacks = lacking(error);
        if (lacks) {
          const { encoding, character } = lacks;
          const job = `a job of kind "${kind}" in queue "${queue}"`;
          const names = [" in these names", "No job was created. "] as const;
          throw new NotInEncodingError(job, encoding, character, ...names, { cause: error });
        }
        if (!isLockTimeout(error)) throw error;
        throw new LaneLockedError(queue, kind, priority, { cause: error });
      });
      under.set(key, resolving);
      void resolving.catch(() => undefined).finally(() => under.delete(key));
    }
    return await resolving;
  }

  async #makeLane(
    key: string,
    queue: string,
    kind: string,
    priority: number,
  ): Promise<LaneAddress> {
    const lanes = this.#lanes;
    // Not from what is known: its number may be that of another queue by now, which would get this lane.
    const { id: queueId } = await ensureQueue(this.session, queue);
    const { lane, made } = await ensureLane(this.session, queueId, kind, priority);
    const address = { queueId, lane };
    lanes.set(key, address);
    if (made) this.onLaneMade(queueId);
    return address;
  }
}

const laneKey = (queue: string, kind: string, priority: number) => `${priority} ${queue}\n${kind}`;

/** The connection broke while the statement was under way: it may have taken effect. */
export const isOutcomeUnknown = (error: unknown): boolean =>
  error instanceof ConnectionLostError && error.sent;

/** Nothing can have taken effect: there was no connection. */
export const isUnavailable = (error: unknown): boolean =>
  error instanceof ConnectionLostError && !error.sent;
