import { startPostgres } from "../postgres.mjs";
import { nextFreePort } from "./ports.mjs";

const PORT = 54_320;

/**
 * @param giveUp called when our own server has ended and cannot be started again
 * @returns `{ url, shown, stop() }`: the server of DATABASE_URL, or one of our own
 */
export async function openDatabase(given, dataDir, log, giveUp) {
  if (given) {
    const url = parse(given);
    const database = decodeURIComponent(url.pathname.slice(1));
    log(`host ${url.host || "local socket"} database ${database}`);
    return { url: given, shown: withoutPassword(url), stop: async () => {} };
  }
  const server = await Server.start(dataDir, log, giveUp);
  return { url: server.url, shown: server.url, stop: () => server.stop() };
}

/** Our own server; one that ends by itself is started again, at the address that the apps know. */
class Server {
  #postgres;
  #log;
  #giveUp;
  #stopping = false;
  #again = Promise.resolve();

  constructor(postgres, log, giveUp) {
    this.#postgres = postgres;
    this.#log = log;
    this.#giveUp = giveUp;
    void this.#keepUp();
  }

  static async start(dataDir, log, giveUp) {
    const port = () => nextFreePort(PORT, "127.0.0.1");
    return new Server(await startPostgres({ dataDir, port, durable: true, log }), log, giveUp);
  }

  get url() {
    return this.#postgres.url();
  }

  async stop() {
    this.#stopping = true;
    await this.#again; // it may be on its way up
    await this.#postgres.stop();
  }

  async #keepUp() {
    await this.#postgres.gone;
    if (this.#stopping) return;
    this.#log("postgres has ended; starts again");
    this.#again = this.#startAgain();
    const problem = await this.#again;
    if (this.#stopping) return;
    if (problem) this.#giveUp(problem);
    else void this.#keepUp();
  }

  /** @returns why it could not */
  async #startAgain() {
    const { dataDir, port } = this.#postgres;
    const log = this.#log;
    try {
      this.#postgres = await startPostgres({ dataDir, port, durable: true, log });
      log("postgres is up again");
    } catch (error) {
      return error;
    }
  }
}

function parse(text) {
  try {
    return new URL(text);
  } catch {
    throw new Error("DATABASE_URL is not a URL such as postgres://user@host:5432/database");
  }
}

function withoutPassword(url) {
  const shown = new URL(url);
  if (shown.password) shown.password = "***";
  return shown.href;
}
