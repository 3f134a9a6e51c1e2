import pg from "pg";
import type { Row } from "./statement.js";

// pg asks the server to describe each result, and makes of every field what its column is. Our statements know their
// columns and want the text as it came: nothing is described, nothing converted.

/** A statement as it goes to pg. */
export interface Asked {
  text: string;
  /** Under which it is prepared. */
  name?: string | undefined;
  values: readonly unknown[];
}

export type Answered = (error: Error | null, rows: Row[]) => void;

/** What pg's connections have and its types leave out. */
export interface Wire {
  parse(message: { text: string }): void;
  bind(message: { values: unknown[] }): void;
  execute(message: object): void;
}

interface PgQuery extends pg.Submittable {
  name: string | undefined;
  queryMode: string | undefined;
  prepare(connection: Wire): void;
}
const Query = pg.Query as unknown as new (
  text: string,
  values: readonly unknown[],
  answered: (error: Error | null) => void,
) => PgQuery;

/** One statement; of several in one text the rows of all. */
export class RawQuery extends Query {
  readonly #taken: Row[];

  constructor({ text, name, values }: Asked, answered: Answered) {
    const taken: Row[] = [];
    super(text, values, (error) => answered(error, taken));
    this.name = name;
    this.#taken = taken;
  }

  override prepare(connection: Wire): void {
    super.prepare(undescribing(connection));
  }

  handleRowDescription(): void {}

  handleDataRow(message: { fields: (string | null)[] }): void {
    this.#taken.push(message.fields);
  }

  handleCommandComplete(_message?: object, _connection?: Wire): void {}
}

const made = new WeakMap<Wire, Wire>();

/** The same connection, on which nothing is described. */
function undescribing(connection: Wire): Wire {
  let wire = made.get(connection);
  if (!wire) {
    wire = Object.create(connection, { describe: { value: () => {} } }) as Wire;
    made.set(connection, wire);
  }
  return wire;
}

/** Sends a statement, behind those that are under way. */
export function ask(client: pg.Client, asked: Asked): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    client.query(new RawQuery(asked, (error, rows) => (error ? reject(error) : resolve(rows))));
  });
}
