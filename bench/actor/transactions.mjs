import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { now } from "./clock.mjs";

/** Connections of an application that enqueues inside of its own short transactions. */
export class Transactions {
  #free = [];
  #waiting = [];
  #all = [];

  static async open(url, connections) {
    const made = new Transactions();
    for (let index = 0; index < connections; index++) {
      const client = new pg.Client(url);
      await client.connect();
      made.#all.push(client);
      made.#free.push(client);
    }
    return made;
  }

  /** Enqueues in a transaction that takes so long; answers when it was told to commit. */
  async enqueue(peer, payload, holdMs) {
    const client =
      this.#free.pop() ?? (await new Promise((resolve) => this.#waiting.push(resolve)));
    try {
      await client.query("begin");
      await peer.enqueueWithin(client, payload);
      await sleep(holdMs);
      const at = now();
      await client.query("commit");
      return at;
    } finally {
      const next = this.#waiting.shift();
      if (next) next(client);
      else this.#free.push(client);
    }
  }

  async close() {
    await Promise.all(this.#all.map((client) => client.end()));
  }
}
