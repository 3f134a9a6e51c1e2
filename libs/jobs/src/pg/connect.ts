import { randomBytes } from "node:crypto";
import pg from "pg";
import { Borrowed } from "./borrowed.js";
import { isClosedForNow, isServerUnready, sqlState } from "./sqlstate.js";

// Finds out at connect what it is connected to. A server process of our own keeps what is set and prepared on
// it; a transaction pooler gives each transaction whichever process is free, so that nothing is kept.

const ADVICE: Record<string, string> = {
  "28P01": "correct the user or the password of the connection",
  "28000": "correct the user of the connection, or let it in on the server",
  "3D000": "create this database, or correct its name in the connection",
  "42501": "grant this user CONNECT on the database, or connect as another",
};

/** We were not let in, or cannot even try: the settings of the connection are wrong, and waiting does not help. */
export class ConnectionRefusedError extends Error {
  override readonly name = "ConnectionRefusedError";
  constructor(cause: unknown) {
    const said = cause instanceof Error ? cause.message : String(cause);
    const state = sqlState(cause);
    const advice = ADVICE[state ?? ""] ?? "check the settings of the connection";
    super(`${said}${state === undefined ? "" : ` (${state})`}; ${advice}`, { cause });
  }
}

export interface ConnectOptions {
  /** Settings of the server session. */
  settings: Readonly<Record<string, string | number>>;
  /** Listens to what happens to the client before it connects. */
  watch?: (client: pg.Client) => void;
  /** Takes it for a pooler whatever it says of itself. */
  neverDirect?: boolean;
}

export interface Connection {
  client: pg.Client;
  /** Through it statements go when a pooler stands in front of the database. */
  borrowed: Borrowed | undefined;
}

const INTRODUCTION_MS = 5_000;

/** Its value tells whether the process that answers got our settings when we connected. */
const MARK = "pg_jobs.connection";

/** Connects; whatever fails leaves no connection behind. */
export async function connect(
  config: pg.ClientConfig,
  { settings, watch = () => {}, neverDirect = false }: ConnectOptions,
): Promise<Connection> {
  const mark = randomBytes(6).toString("hex");
  const ours = Object.entries({ ...settings, [MARK]: mark }).map(
    ([key, value]) => `-c ${key}=${String(value).replaceAll(" ", "\\ ")}`,
  );
  const options = [config.options, ...ours].filter(Boolean).join(" ");
  const client = await dial({ ...config, options }, watch).catch((error: unknown) => {
    if (!refusesOptions(error)) throw error;
    return dial(config, watch);
  });
  try {
    const { pid, marked, clock, level } = await introduce(client);
    const direct = !neverDirect && marked === mark && Number(pid) === processOf(client);
    const name = config.application_name ?? "pg-jobs";
    return {
      client,
      borrowed: direct ? undefined : new Borrowed(`${name} ${mark}`, settings, clock, level),
    };
  } catch (error) {
    destroy(client);
    throw error;
  }
}

async function dial(
  config: pg.ClientConfig,
  watch: (client: pg.Client) => void,
): Promise<pg.Client> {
  const client = make(config);
  watch(client);
  try {
    await client.connect();
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    if (refusesOptions(error)) throw error;
    throw isRefusal(error) ? new ConnectionRefusedError(error) : error;
  }
}

/** pg reads connection strings and certificates here. */
function make(config: pg.ClientConfig): pg.Client {
  try {
    return new pg.Client(config);
  } catch (error) {
    throw new ConnectionRefusedError(error);
  }
}

/** The server's answer to who we are, or pg's before it: no password for one that asks, no TLS on the other side. */
const isRefusal = (error: unknown): boolean =>
  sqlState(error) === undefined
    ? error instanceof Error && /^SASL:|does not support SSL connections$/.test(error.message)
    : !isServerUnready(error) && !isClosedForNow(error);

/** PgBouncer takes no settings at connect, or, since 1.20, only those that it tracks. */
const refusesOptions = (error: unknown): boolean =>
  sqlState(error) !== undefined && /unsupported startup parameter/i.test((error as Error).message);

/** Who answers. A pooler that has lost its database takes connections too, and answers nothing. */
async function introduce(client: pg.Client) {
  const question = {
    text: `select pg_backend_pid(), current_setting('${MARK}', true), extract(epoch from clock_timestamp()),
      current_setting('default_transaction_isolation')`,
    rowMode: "array" as const,
    query_timeout: INTRODUCTION_MS,
  };
  const { rows } = await client.query<[number, string | null, string, string]>(question);
  const [pid, marked, seconds, level] = rows[0]!;
  return { pid, marked, clock: Number(seconds) * 1_000, level };
}

/** The server process that greeted us; a pooler makes a number up, or sends none. */
export const processOf = (client: pg.Client): number | undefined =>
  (client as unknown as { processID: number | null }).processID ?? undefined;

/** The socket itself: `end()` would wait for a peer that may be gone. */
export function destroy(client: pg.Client): void {
  (
    client as unknown as { connection: { stream: { destroy(): void } } }
  ).connection.stream.destroy();
}
