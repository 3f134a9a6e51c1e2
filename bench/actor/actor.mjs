// What a child process of a peer can be told to do: to enqueue, to work, to say what it has seen.
import { readFileSync } from "node:fs";
import { fill, flatOut, nowAndThen, steadily } from "./callers.mjs";
import { now } from "./clock.mjs";
import { HANDLERS } from "./handlers.mjs";
import { Ledger } from "./ledger.mjs";
import { hotPayloads, payload } from "./payload.mjs";
import { settled } from "./settled.mjs";
import { Transactions } from "./transactions.mjs";
import { Viewers } from "./viewers.mjs";

export class Actor {
  #peer;
  #places;
  #ledger;
  #tell;
  #viewers;
  /** What waited before anything was enqueued: jobs scheduled for another day. */
  #atFirst;

  constructor(tell) {
    this.#tell = tell;
  }

  async open(name, places) {
    const { open } = await import(`../peers/${name}.mjs`);
    this.#places = places;
    this.#peer = await open(places);
  }

  async install() {
    await this.#peer.install();
  }

  async seed(what, count) {
    await this.#peer.seeds[what](count);
  }

  // --- as a producer

  /** Counts what waits already; jobs that come later are what the run is about. */
  async produce(options = {}) {
    await this.#peer.produce(options);
    this.#atFirst = await this.#peer.tally();
  }

  async fill(options) {
    return await fill(this.#peer, options);
  }

  /** Jobs of one key, until they are out of the way of the others. */
  async setAside(count) {
    await this.#peer.setAside(hotPayloads(count));
  }

  async flatOut(options) {
    return await flatOut(this.#peer, options);
  }

  async nowAndThen(options) {
    return await nowAndThen(this.#peer, options);
  }

  /** Every second job in a transaction of the application, where the peer can do that. */
  async steadily({ connections = 0, holdMs = 0, first = 0, ...pace }) {
    const transactions =
      connections > 0 && this.#peer.enqueueWithin
        ? await Transactions.open(this.#places.url, connections)
        : undefined;
    const made = await steadily(pace, async (index) => {
      const job = payload(first + index);
      if (transactions && index % 2 === 1)
        return await transactions.enqueue(this.#peer, job, holdMs);
      const at = now();
      await this.#peer.enqueue(job);
      return at;
    });
    await transactions?.close();
    return made;
  }

  /** Until nothing waits or runs any more by the peer's own tables. */
  async settled() {
    return await settled(async () => await this.#peer.left());
  }

  /** By the peer's own tables, since the beginning; null is what the peer does not keep. */
  async tally() {
    const tally = await this.#peer.tally();
    return Object.fromEntries(
      Object.entries(tally).map(([state, count]) => [
        state,
        count === null ? null : count - this.#atFirst[state],
      ]),
    );
  }

  // --- as a worker

  async work(options) {
    this.#ledger = new Ledger(options);
    await this.#peer.work(HANDLERS[options.handler](this.#ledger), options);
  }

  /** Tells of its count every few ms: jobs are shared among several workers. */
  async tellCounts(every) {
    let told = -1;
    setInterval(() => {
      const count = this.#ledger?.count ?? 0;
      if (count !== told) this.#tell({ count: (told = count) });
    }, every).unref();
  }

  async report(jobs) {
    return this.#ledger.report(jobs);
  }

  // --- as the admin app

  /** Serves the admin API to so many who follow its events. */
  async administer(viewers) {
    this.#viewers = new Viewers(await this.#peer.administer());
    await this.#viewers.follow(viewers);
  }

  async read({ paths, rounds }) {
    return await this.#viewers.read(paths, rounds);
  }

  // --- as a process

  async cpuMs() {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  }

  /** At its highest so far. */
  async rssMb() {
    const [, kB] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
    return Number(kB) / 1_024;
  }

  async close() {
    this.#viewers?.leave();
    await this.#peer?.close();
  }
}
