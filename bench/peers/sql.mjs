import pg from "pg";
import { InTurn } from "./in-turn.mjs";

/** One connection for what is not measured: schema, counts; opened on first use. */
export class Sql {
  #url;
  #client;
  #turns;

  constructor(url) {
    this.#url = url;
  }

  async run(text, values) {
    this.#turns ??= this.#connect();
    const turns = await this.#turns;
    return (await turns.use((client) => client.query(text, values))).rows;
  }

  /** The numbers of the only row, by column. */
  async numbers(text) {
    const [row] = await this.run(text);
    return Object.fromEntries(
      Object.entries(row).map(([name, value]) => [name, value === null ? null : Number(value)]),
    );
  }

  async close() {
    await this.#turns;
    await this.#client?.end();
  }

  async #connect() {
    this.#client = new pg.Client(this.#url);
    await this.#client.connect();
    return new InTurn([this.#client]);
  }
}
