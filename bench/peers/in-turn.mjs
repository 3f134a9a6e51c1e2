/** Gives out connections in turn, to one statement at a time each. */
export class InTurn {
  #lines;
  #next = 0;

  constructor(connections) {
    this.#lines = connections.map((connection) => ({ connection, last: Promise.resolve() }));
  }

  async use(work) {
    const line = this.#lines[this.#next++ % this.#lines.length];
    const done = line.last.then(() => work(line.connection));
    line.last = done.catch(() => {});
    return await done;
  }
}
