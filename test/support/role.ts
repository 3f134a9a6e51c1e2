import { randomBytes } from "node:crypto";
import pg from "pg";
import type { Bench } from "./harness.js";

/** A login of its own that owns nothing and may do only what it is granted. */
export class Role {
  readonly name = `r_${randomBytes(6).toString("hex")}`;

  private constructor(private readonly bench: Bench) {}

  static async create(bench: Bench): Promise<Role> {
    const role = new Role(bench);
    await role.#sql(`create role ${role.name} login password 'let-me-in'`);
    return role;
  }

  /** The database of the bench, past a pooler: that knows the one login only. */
  get url(): string {
    return this.urlOf(this.bench);
  }

  /** The same, of another bench. */
  urlOf(bench: Bench): string {
    const url = new URL(bench.direct);
    url.username = this.name;
    url.password = "let-me-in";
    return url.href;
  }

  /** Everything in the schema of the bench. */
  async grantAll(): Promise<void> {
    await this.grant(
      "usage, create on schema jobs",
      "all on all tables in schema jobs",
      "all on all sequences in schema jobs",
      "execute on all functions in schema jobs",
    );
  }

  /** Each as it stands between GRANT and TO; `jobs` is the schema of the bench. */
  async grant(...rights: readonly string[]): Promise<void> {
    for (const right of rights)
      await this.#sql(`grant ${right.replaceAll(/\bjobs\b/g, this.bench.schema)} to ${this.name}`);
  }

  /** So many connections at once. */
  async limit(connections: number): Promise<void> {
    await this.#sql(`alter role ${this.name} connection limit ${connections}`);
  }

  /** Also after its bench is closed; what it was connected with must be closed. */
  async drop(): Promise<void> {
    await this.#sql(`drop owned by ${this.name}; drop role ${this.name}`);
  }

  async #sql(text: string): Promise<void> {
    const client = new pg.Client(this.bench.direct);
    await client.connect();
    try {
      await client.query(text);
    } finally {
      await client.end();
    }
  }
}
