// The PostgreSQL server of a benchmark: durable, and a fresh database for each run, copied from a template that was
// made once for a peer and what it is seeded with.
import pg from "pg";
import { startPostgres } from "../../tools/postgres.mjs";
import { SETTINGS } from "./settings.mjs";

export class Cluster {
  #server;
  #admin;
  #templates = new Map();
  #made = 0;

  static async start() {
    const cluster = new Cluster();
    cluster.#server = await startPostgres({ durable: true, settings: SETTINGS });
    cluster.#admin = await cluster.connect("postgres");
    return cluster;
  }

  get pid() {
    return this.#server.pid;
  }

  url(database) {
    return this.#server.url(database);
  }

  async connect(database) {
    const client = new pg.Client(this.url(database));
    await client.connect();
    return client;
  }

  async version() {
    const { rows } = await this.#admin.query("show server_version");
    return rows[0].server_version.split(" ")[0];
  }

  /** A fresh copy of a template; `make(url)` fills the template the first time. */
  async fresh(template, make) {
    if (!this.#templates.has(template)) {
      const made = `template_${++this.#made}`;
      await this.#admin.query(`create database ${made}`);
      await make(made);
      this.#templates.set(template, made);
    }
    const name = `run_${++this.#made}`;
    // Copies files and syncs them: each run begins right after a checkpoint, with nothing left to be written.
    await this.#admin.query(
      `create database ${name} template ${this.#templates.get(template)} strategy file_copy`,
    );
    return name;
  }

  async drop(database) {
    await this.#admin.query(`drop database if exists ${database} with (force)`);
  }

  /** Without it a table stays as it is: never analysed, never vacuumed. */
  async autovacuum(on) {
    await this.#admin.query(`alter system set autovacuum = ${on ? "on" : "off"}`);
    await this.#admin.query("select pg_reload_conf()");
  }

  async walPosition() {
    const { rows } = await this.#admin.query(
      "select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8 as bytes",
    );
    return rows[0].bytes;
  }

  /** Transactions of a database whose sessions have ended: those that are open tell late. */
  async transactions(database) {
    const { rows } = await this.#admin.query(
      "select (xact_commit + xact_rollback)::float8 as count from pg_stat_database where datname = $1",
      [database],
    );
    return rows[0].count;
  }

  async stop() {
    await this.#admin?.end();
    await this.#server.stop();
  }
}
