/** One static SQL text; only the schema's name is interpolated, so that it can be prepared and explained. */
export class Statement {
  readonly #build: (schema: string) => string;
  readonly #texts = new Map<string, string>();

  constructor(
    /** Name under which sessions prepare it; `null` = sent unnamed and planned each time. */
    readonly name: string | null,
    build: (schema: string) => string,
    /** Its answer may take so many ms; absent: as long as any other's of its session. */
    readonly replyTimeout?: number,
  ) {
    this.#build = build;
  }

  text(schema: string): string {
    let text = this.#texts.get(schema);
    if (text === undefined) {
      text = this.#build(`"${schema}"`).trim();
      this.#texts.set(schema, text);
    }
    return text;
  }
}

/** A row as PostgreSQL sends it: raw text by column, so that microseconds and bigints stay exact. */
export type Row = readonly (string | null)[];

/** Whatever can run a statement: one of our sessions, or the caller's own transaction. */
export interface Runner {
  run(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
}

/** PostgreSQL's literal of an array of numbers: cheaper than pg's own serialiser. */
export function arrayOf(values: Iterable<string | number>): string {
  return `{${Array.isArray(values) ? values.join(",") : [...values].join(",")}}`;
}
