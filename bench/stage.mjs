// Where one run takes place: a database of its own, the child processes of one peer, and the accounts.
import { PEERS } from "./peers/index.mjs";
import { Child } from "./machine/child.mjs";
import { serverCpuMs } from "./machine/cpu.mjs";

const TELL_EVERY_MS = 4;
const PATIENCE_MS = 40_000;

export class Stage {
  #machine;
  #peer;
  #database;
  #places;
  #children = [];
  #clients = [];
  #awaited;

  constructor(machine, peer) {
    this.#machine = machine;
    this.#peer = peer;
  }

  /** Makes the place and starts the process of the producer; `awaited` are jobs that workers wait for as they come. */
  async set({ seed, awaited = false }) {
    this.#awaited = awaited;
    const { cluster, redis } = this.#machine;
    if (PEERS[this.#peer].on === "redis") {
      this.#places = { redis: { host: redis.host, port: redis.port } };
      await this.#briefly(this.#places, async (child) => await child.call("install"));
    } else {
      const template = seed ? `${this.#peer} ${seed.what} ${seed.count}` : this.#peer;
      const make = async (database) => await this.#makeTemplate(database, seed);
      this.#database = await cluster.fresh(template, make);
      this.#places = { url: cluster.url(this.#database) };
    }
    this.producer = await this.#child();
    await this.producer.call("produce", { awaited });
  }

  /** Worker processes that have begun to work. */
  async workers(count, { flags, ...options }) {
    const workers = await Promise.all(Array.from({ length: count }, () => this.#child(flags)));
    for (const worker of workers) await worker.call("tellCounts", TELL_EVERY_MS);
    const awaited = this.#awaited;
    await Promise.all(workers.map((worker) => worker.call("work", { awaited, ...options })));
    return workers;
  }

  /** A process with the admin API, which so many follow. */
  async admin(viewers) {
    const admin = await this.#child();
    await admin.call("administer", viewers);
    return admin;
  }

  /** Until the workers have begun so many runs in all. */
  async ran(workers, count) {
    const total = () => workers.reduce((sum, worker) => sum + worker.count, 0);
    let timer;
    let before = -1;
    await new Promise((resolve, reject) => {
      const look = () => total() >= count && resolve();
      for (const worker of workers) worker.onCount(look);
      timer = setInterval(() => {
        if (total() === before)
          reject(new Error(`${before} of ${count} runs have begun, and no more for a long time`));
        before = total();
      }, PATIENCE_MS);
      look();
    }).finally(() => clearInterval(timer));
  }

  async sql(text, values) {
    if (!this.#database) return;
    const client = await this.#machine.cluster.connect(this.#database);
    try {
      await client.query(text, values);
    } finally {
      await client.end();
    }
  }

  /** A transaction that stays open until the run ends, and sees everything as it is now. */
  async pin() {
    const client = await this.#machine.cluster.connect(this.#database);
    this.#clients.push(client);
    await client.query("begin isolation level repeatable read");
    await client.query("select count(*) from pg_class");
  }

  async autovacuum(on) {
    await this.#machine.cluster.autovacuum(on);
  }

  /** What the server has used up so far; a difference of two says what something cost. */
  async spent() {
    const { cluster, redis } = this.#machine;
    return {
      serverMs: serverCpuMs(this.#database ? cluster.pid : redis.pid),
      walBytes: this.#database ? await cluster.walPosition() : undefined,
    };
  }

  /** Ends the processes; answers the transactions of the whole run, where there are any. */
  async close() {
    for (const client of this.#clients) await client.end();
    await Promise.all(this.#children.map((child) => child.stop()));
    this.#children = [];
    return this.#database ? await this.#machine.cluster.transactions(this.#database) : undefined;
  }

  async clear() {
    await this.close();
    if (this.#database) await this.#machine.cluster.drop(this.#database);
  }

  async #child(flags) {
    const child = await Child.start(this.#peer, this.#places, flags);
    this.#children.push(child);
    return child;
  }

  async #makeTemplate(database, seed) {
    const { cluster } = this.#machine;
    const places = { url: cluster.url(database) };
    await this.#briefly(places, async (child) => await child.call("install"));
    if (!seed) return; // tables stay as a new user has them: never analysed
    await this.#briefly(places, async (child) => {
      await child.call("produce");
      await child.call("seed", seed.what, seed.count);
    });
    const client = await cluster.connect(database);
    await client.query("vacuum analyze");
    await client.end();
  }

  async #briefly(places, work) {
    const child = await Child.start(this.#peer, places);
    try {
      await work(child);
    } finally {
      await child.stop();
    }
  }
}
