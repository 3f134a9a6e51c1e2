// Starts a server with the tools of a given folder, says where it is, and ends with its input.
// node run-postgres.mjs <folder of tools/> [<data folder>]
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, dataDir] = process.argv.slice(2);
const { startPostgres } = await import(pathToFileURL(path.join(folder, "tools/postgres.mjs")).href);
const server = await startPostgres({ dataDir, log: (line) => console.log(line) });
console.log(JSON.stringify({ url: server.url(), pid: server.pid, dataDir: server.dataDir }));
process.stdin.resume().once("end", () => void server.stop());
