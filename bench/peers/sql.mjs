import pg from "pg";

/** One connection for what is not measured: schema, counts; opened on first use. */
export class Sql {
  #url;
  #client;

  constructor(url) {
    this.#url = url;
  }

  async run(text, values) {
    this.#client ??= this.#connect();
    return (await (await this.#client).query(text, values)).rows;
  }

  /** The numbers of the only row, by column. */
  async numbers(text) {
    const [row] = await this.run(text);
    return Object.fromEntries(
      Object.entries(row).map(([name, value]) => [name, value === null ? null : Number(value)]),
    );
  }

  async close() {
    await (await this.#client)?.end();
  }

  async #connect() {
    const client = new pg.Client(this.#url);
    await client.connect();
    return client;
  }
}
