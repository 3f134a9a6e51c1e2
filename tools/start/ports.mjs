import { createServer } from "node:net";
import { waitFor } from "../processes.mjs";

/** @returns the error code when nobody can listen there */
function refusal(port, host) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error) => resolve(error.code));
    server.listen(port, host, () => server.close(() => resolve(undefined)));
  });
}

export async function nextFreePort(from, host, reserved = new Set()) {
  for (let port = from; port < from + 200 && port < 65_536; port++) {
    if (!reserved.has(port) && !(await refusal(port, host))) return port;
  }
  throw new Error(`no free port from ${from} on ${host}`);
}

/** A port that somebody asked for by name: it has to be this one. */
async function explicitPort(variable, text, host) {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535) throw new Error(`${variable}=${text} is not a port`);
  let code;
  // an app of a launcher that was killed a moment ago may still be on its way out
  const free = await waitFor(async () => !(code = await refusal(port, host)), 3_000, 200);
  if (free) return port;
  const reason = code === "EADDRINUSE" ? "is taken" : `cannot be used on ${host} (${code})`;
  throw new Error(`${variable}: port ${port} ${reason}`);
}

/**
 * @param wanted `{ api: { variable: "API_PORT", fallback: 3000 }, … }`
 * @returns `{ api: 3000, … }`: explicit ones as they are, of the others the next free one
 */
export async function choosePorts(wanted, host, env = process.env) {
  const ports = {};
  const reserved = new Set(Object.values(wanted).map(({ fallback }) => fallback));
  for (const [name, { variable }] of Object.entries(wanted)) {
    if (!env[variable]) continue;
    ports[name] = await explicitPort(variable, env[variable], host);
    reserved.add(ports[name]);
  }
  for (const [name, { variable, fallback }] of Object.entries(wanted)) {
    if (env[variable]) continue;
    const others = new Set([...reserved, ...Object.values(ports)]);
    // its own default is not "reserved", unless somebody asked for it explicitly
    if (!Object.values(ports).includes(fallback)) others.delete(fallback);
    ports[name] = await nextFreePort(fallback, host, others);
  }
  return ports;
}
