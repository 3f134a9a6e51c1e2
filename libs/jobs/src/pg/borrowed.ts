import type pg from "pg";
import type { Backend } from "./backend.js";
import { type Answered, type Asked, RawQuery, type Wire, ask } from "./raw-query.js";
import { sqlState } from "./sqlstate.js";
import type { Row } from "./statement.js";

// Behind a transaction pooler each transaction is sent with all that it needs: in one round trip our settings,
// for this transaction only, and the statement, unnamed. Up to the one Sync they are one transaction, so that a
// statement that fails leaves nothing open. Two things come with the settings, since the process that runs it is
// not ours: a name by which it can be found while it does, and a time after which it refuses to begin. Whoever
// has lost the connection waits for that time and ends what has this name; then nothing is executed any more.

/** A statement that waits for a process, or in a dead network, longer than this is not executed. */
export const VALID_MS = 5_000;

/**
 * For where the database has another default. With a snapshot the level is fixed, so it comes before our settings; it
 * is that of this transaction, though SET LOCAL would warn of there being none.
 */
const LEVEL = "set transaction_isolation = 'read committed'";

export class Borrowed {
  readonly #settings: readonly string[];
  /** The database's clock minus ours. */
  #ahead: number;
  #until = "-infinity";

  constructor(
    readonly name: string,
    settings: Readonly<Record<string, string | number>>,
    clock: number,
    /** What the database has for its default. */
    level = "read committed",
  ) {
    this.#settings = [...(level === "read committed" ? [] : [LEVEL]), prefix(name, settings)];
    this.#ahead = clock - performance.now();
  }

  /** What may still run when the connection is lost. */
  get backend(): Backend {
    return { name: this.name, until: this.#until };
  }

  /** Runs a statement, or begins a transaction. @throws TooLateError when it was not executed. */
  async run(client: pg.Client, asked: Asked): Promise<Row[]> {
    const sentAt = performance.now();
    for (;;) {
      this.#until = new Date(performance.now() + this.#ahead + VALID_MS).toISOString();
      try {
        const { clock, rows } = await send(client, asked, this.#settings, this.#until);
        this.#ahead = clock - performance.now();
        return rows;
      } catch (error) {
        if (!(error instanceof TooLateError) || performance.now() - sentAt > VALID_MS) throw error;
        // The clocks have run apart while nothing was sent.
        this.#ahead = (await readClock(client)) - performance.now();
      }
    }
  }
}

/** The statement came to a process when its time was over. Nothing has happened. */
export class TooLateError extends Error {
  override readonly name = "TooLateError";
  constructor(cause: unknown) {
    super(`the pooler had no connection for a statement within ${VALID_MS} ms`, { cause });
  }
}

// set_config() and not SET: that would warn, the transaction is begun by no BEGIN. The name comes first: whoever
// looks for it when the time is over must find all that have passed the check.
function prefix(name: string, settings: Readonly<Record<string, string | number>>): string {
  const { statement_timeout = 0, ...rest } = settings;
  const set = (key: string, value: string) => `set_config('${key}', ${value}, true)`;
  const list = [
    set("application_name", `'${name}'`),
    set(
      "statement_timeout",
      `case when clock_timestamp() < $1::timestamptz then '${statement_timeout}' else 'too late' end`,
    ),
    ...Object.entries(rest).map(([key, value]) => set(key, `'${value}'`)),
    "extract(epoch from clock_timestamp())",
  ];
  return `select ${list.join(", ")}`;
}

async function readClock(client: pg.Client): Promise<number> {
  const text = "select extract(epoch from clock_timestamp())";
  const [row] = await ask(client, { text, values: [] });
  return Number(row![0]) * 1_000;
}

function send(
  client: pg.Client,
  asked: Asked,
  settings: readonly string[],
  until: string,
): Promise<{ clock: number; rows: Row[] }> {
  return new Promise((resolve, reject) => {
    const query: PrefixedQuery = new PrefixedQuery(asked, settings, until, (error, rows) => {
      if (!error) resolve({ clock: query.clock, rows });
      else if (!query.begun && sqlState(error) === "22023") reject(new TooLateError(error));
      else reject(error);
    });
    client.query(query);
  });
}

/** A statement with others before it, in one go. */
class PrefixedQuery extends RawQuery {
  #executed = 0;
  /** The database's, in ms. */
  clock = 0;

  constructor(
    asked: Asked,
    /** The last of them says until when the statement may begin. */
    readonly settings: readonly string[],
    readonly until: string,
    answered: Answered,
  ) {
    super(asked, answered);
    this.queryMode = "extended";
  }

  /** Whether those before have been executed. */
  get begun(): boolean {
    return this.#executed >= this.settings.length;
  }

  override prepare(connection: Wire): void {
    for (const text of this.settings) {
      connection.parse({ text });
      connection.bind({ values: text === this.settings.at(-1) ? [this.until] : [] });
      connection.execute({});
    }
    super.prepare(connection);
  }

  override handleDataRow(message: { fields: string[] }): void {
    if (this.begun) super.handleDataRow(message);
    else this.clock = Number(message.fields.at(-1)) * 1_000;
  }

  override handleCommandComplete(message: object, connection: Wire): void {
    if (this.begun) super.handleCommandComplete(message, connection);
    this.#executed++;
  }
}
