export interface PgbouncerOptions {
  /** Of the server behind it. */
  url: string;
  /** Lines of pgbouncer.ini. */
  settings?: Record<string, string | number>;
}

export interface Pgbouncer {
  readonly port: number;
  readonly pid: number;
  /** The server's URL through it. */
  url(database?: string): string;
  /** Ends it; `start()` begins again on the same port. */
  end(by?: NodeJS.Signals): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** The program; undefined where it is not installed. */
export const pgbouncer: string | undefined;
export function startPgbouncer(options: PgbouncerOptions): Promise<Pgbouncer>;
