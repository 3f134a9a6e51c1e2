import { postgresUrlProblem } from "../../libs/jobs/dist/job/postgres-url.js";
import { startPostgres } from "../postgres.mjs";
import { nextFreePort } from "./ports.mjs";

const PORT = 54_320;

/**
 * @param giveUp called when our own server has ended and cannot be started again
 * @returns `{ url, shown, stop() }`: the server of DATABASE_URL, or one of our own
 */
export async function openDatabase(given, dataDir, log, giveUp) {
  if (given) {
    const { host, database, shown } = read(given);
    log(`host ${host} database ${database}`);
    return { url: given, shown, stop: async () => {} };
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

/** What may be shown of it: nothing of the query, where a password may stand too. */
function read(text) {
  const problem = postgresUrlProblem(text);
  if (problem) throw new Error(`DATABASE_URL: ${problem}`);
  // URL knows no user without a host
  const url = new URL(text.replace("@/", "@local-socket/"));
  const query = new URLSearchParams(url.search);
  const named = url.host === "local-socket" ? "" : url.host;
  const socket = url.protocol === "socket:";
  const database = socket ? query.get("db") : decoded(url.pathname.slice(1));
  if (url.password) url.password = "***";
  url.search = "";
  return {
    host: named || query.get("host") || "local socket",
    database: database || "of its user",
    shown: `${url.href.replace("@local-socket/", "@/")}${query.size > 0 ? "?…" : ""}`,
  };
}

/** As pg reads it: a % that encodes nothing stands for itself. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
