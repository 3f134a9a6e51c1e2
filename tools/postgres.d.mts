export interface PostgresOptions {
  /** Kept over restarts when given, otherwise temporary. */
  dataDir?: string;
  /** This one, or one that is chosen, again if somebody else was faster; any free one when absent. */
  port?: number | (() => Promise<number>);
  /** An older PostgreSQL than that of `npm start`: "14". */
  major?: string;
  /** Survive a power cut (fsync on). */
  durable?: boolean;
  log?: (line: string) => void;
  settings?: Record<string, string | number>;
}

export interface PostgresServer {
  pid: number;
  port: number;
  dataDir: string;
  /** Resolves when the server has ended, whoever ended it. */
  gone: Promise<void>;
  url(database?: string): string;
  stop(options?: { mode?: "fast" | "immediate" }): Promise<void>;
}

export function startPostgres(options?: PostgresOptions): Promise<PostgresServer>;
