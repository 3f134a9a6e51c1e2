import { type Runner, Statement } from "../../pg/statement.js";

const BLOCK = 1024n;

/** Ids of different processes are out of order by no more than this: lists go by id. */
export const OUT_OF_ORDER_MS = 60_000;
/** Then what is left of a block is thrown away; the rest of the minute is for the way into the table. */
const BLOCK_MS = OUT_OF_ORDER_MS - 15_000;

const nextBlock = new Statement("next_block", (jobs) => `select nextval('${jobs}.job_id')`);

/** Job ids from blocks of a sequence: known before the insert, ascending, one round trip per 1,024. */
export class JobIds {
  #next = 0n;
  #end = 0n;
  #staleAt = 0;
  #fetching: Promise<void> | undefined;

  /** `count` fresh ids. Ids that are not used in the end are lost, which harms nobody. */
  async take(runner: Runner, count: number): Promise<string[]> {
    const ids: string[] = [];
    if (performance.now() > this.#staleAt) this.#next = this.#end;
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
    const drawnAt = performance.now();
    const [row] = await runner.run(nextBlock);
    this.#staleAt = drawnAt + BLOCK_MS;
    this.#next = BigInt(row![0]!);
    this.#end = this.#next + BLOCK;
  }
}
