// A child process of one peer: does what it is told, answers, and ends with its parent.
import { Actor } from "./actor.mjs";

const actor = new Actor((message) => process.send(message));

async function obey({ id, call, args }) {
  try {
    process.send({ id, answer: await actor[call](...args) });
  } catch (error) {
    process.send({ id, error: error.stack ?? String(error) });
  }
}

process.on("message", (message) => void obey(message));
process.on("disconnect", () => process.exit());
process.send({ ready: true });
