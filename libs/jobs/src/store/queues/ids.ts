import { type Runner, Statement } from "../../pg/statement.js";

const BLOCK = 1024n;

const nextBlock = new Statement("next_block", (jobs) => `select nextval('${jobs}.job_id')`);

/** Job ids from blocks of a sequence: known before the insert, ascending, one round trip per 1,024. */
export class JobIds {
  #next = 0n;
  #end = 0n;
  #fetching: Promise<void> | undefined;

  /** `count` fresh ids. Ids that are not used in the end are lost, which harms nobody. */
  async take(runner: Runner, count: number): Promise<string[]> {
    const ids: string[] = [];
    while (ids.length < count) {
      if (this.#next === this.#end) {
        this.#fetching ??= this.#fetch(runner).finally(() => (this.#fetching = undefined));
        await this.#fetching;
        continue;
      }
      ids.push(String(this.#next++));
    }
    return ids;
  }

  async #fetch(runner: Runner): Promise<void> {
    const [row] = await runner.run(nextBlock);
    this.#next = BigInt(row![0]!);
    this.#end = this.#next + BLOCK;
  }
}
