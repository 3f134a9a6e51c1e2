import { type Row, Statement } from "../../pg/statement.js";

/** What a transition is told of the place where it runs. */
export interface Writes {
  /** The schema has a history: what leaves no trace elsewhere is written, as the queue's mode asks for it. */
  history?: boolean;
  /** This worker was told to write everything: its hot statements do it too, as long as the queue's mode says so. */
  full?: boolean;
  /** Finished jobs are kept; default true. */
  keep?: boolean;
  /** Gets the ids of those that have ended and that somebody waits for; it must not throw. */
  answered?: (ids: readonly string[]) => void;
}

/** Of rows of an id and whether it is awaited. */
export function tellAnswered(rows: readonly Row[], { answered }: Writes): void {
  const ids = rows.filter(([, awaited]) => awaited?.startsWith("t")).map(([id]) => id!);
  if (ids.length > 0) answered?.(ids);
}

/** A common table expression, with a comma before it, that writes one event for each row of another. */
export type Note = (note: {
  event: string;
  from: string;
  /** The modes of the queue in which it is written. */
  modes: readonly ("exceptions" | "full")[];
  /** An expression over a row of `from`; default none. */
  details?: string;
  /** The same for when it was; default when the transaction began. */
  at?: string;
}) => string;

/** SQL: whether the queue of the statement, `$1`, has one of these modes; looked up once. */
export const modeIs = (jobs: string, modes: readonly string[]) =>
  `(select q.history from ${jobs}.queue q where q.id = $1::integer) in (${modes.map((mode) => `'${mode}'`).join(", ")})`;

/** One transition in two texts: for a schema with a history, and for one of the release before. */
export class NotedStatement {
  readonly #plain: Statement;
  readonly #noted: Statement;

  constructor(name: string, build: (jobs: string, note: Note, history: boolean) => string) {
    this.#plain = new Statement(name, (jobs) => build(jobs, () => "", false));
    this.#noted = new Statement(`${name}_noted`, (jobs) =>
      build(
        jobs,
        ({ event, from, modes, details = "null::jsonb", at = "now()" }) => `, told as (
  insert into ${jobs}.event (job_id, at, started_at, attempt, worker, queue_id, generation, event, details)
  select id, ${at}, claimed_at, attempt, $4::integer, queue_id, generation, '${event}', ${details}
  from ${from} where ${modeIs(jobs, modes)}
)`,
        true,
      ),
    );
  }

  /** For what is rare: with its event wherever the schema has a history. */
  for({ history = false }: Writes): Statement {
    return history ? this.#noted : this.#plain;
  }

  /** For what is not: its event follows from the tables, and is written only on request. */
  whenFull({ history = false, full = false }: Writes): Statement {
    return history && full ? this.#noted : this.#plain;
  }
}
