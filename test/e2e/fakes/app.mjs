// Stands for apps/{api,worker,admin} in the launcher's specs: the same ports, messages and signals.
import { createServer } from "node:http";
import { connect } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const { env } = process;
const name = path.basename(import.meta.dirname);

const server = createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data));
  request.on("end", () => {
    if (request.method === "POST") console.log(`POST ${request.url} ${body}`);
    response.writeHead(request.method === "POST" ? 201 : 200).end("{}");
  });
});

function postgresAnswers() {
  const { hostname, port } = new URL(env.DATABASE_URL);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => resolve(true)).once("error", () =>
      resolve(false),
    );
    socket.once("connect", () => socket.destroy());
  });
}

async function drain() {
  console.log("drains");
  if (name === "worker") await sleep(Number(env.FAKE_DRAIN ?? 0));
  console.log(`stopped, postgres is ${(await postgresAnswers()) ? "up" : "down"}`);
  process.exit(0);
}

process.once("SIGTERM", () => void drain());
process.once("disconnect", () => process.exit(0));

if (env.FAKE_BROKEN === name) {
  console.error("cannot find my configuration");
  process.exit(3);
}
server.listen(Number(env[`${name.toUpperCase()}_PORT`]), env.HOST, () => {
  console.log(`pid ${process.pid}`);
  process.send({ type: "ready", port: server.address().port });
  if (name !== "worker") return;
  console.log(`reads ${env.FEED_SOURCES}`);
  process.send({ type: "succeeded", id: "1" });
  process.send({ type: "succeeded", id: "2" });
});
