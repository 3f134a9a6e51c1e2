import { startPostgres } from "../postgres.mjs";
import { nextFreePort } from "./ports.mjs";

const PORT = 54_320;

/** @returns `{ url, shown, stop() }`: the server of DATABASE_URL, or one of our own */
export async function openDatabase(given, dataDir, log) {
  if (given) {
    const url = parse(given);
    const database = decodeURIComponent(url.pathname.slice(1));
    log(`host ${url.host || "local socket"} database ${database}`);
    return { url: given, shown: withoutPassword(url), stop: async () => {} };
  }
  const server = await startPostgres({
    dataDir,
    port: () => nextFreePort(PORT, "127.0.0.1"),
    durable: true,
    log,
  });
  return { url: server.url(), shown: server.url(), stop: () => server.stop() };
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
