import { randomBytes } from "node:crypto";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import { type Runner, Statement } from "../../libs/jobs/src/pg/statement.js";

/** A node of a plan, as EXPLAIN tells of it. */
export interface PlanNode {
  "Node Type": string;
  "Parent Relationship"?: string;
  "Index Name"?: string;
  "Relation Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Shared Hit Blocks": number;
  "Shared Read Blocks": number;
  Plans?: PlanNode[];
}

const flat = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flat)];

class Undo extends Error {}

const TURNS = 4;

export interface Explain {
  /** Instead of the session's own. */
  mode?: "force_custom_plan" | "force_generic_plan";
  /** Sent before it, in the same transaction. */
  before?: string;
}

/** What a prepared statement does, its root first, and then undoes; `values` as SQL has them between commas. */
export async function explain(
  session: Session,
  statement: Statement,
  values: string,
  { mode, before }: Explain = {},
): Promise<PlanNode[]> {
  let nodes: PlanNode[] = [];
  // One that fails stays prepared.
  const name = `plan_${randomBytes(6).toString("hex")}`;
  // On one connection, behind a pooler too.
  await session
    .transaction(async (on) => {
      const run = async (text: string) => await on(new Statement(null, () => text));
      if (before) await run(before);
      if (mode) await run(`set local plan_cache_mode = ${mode}`);
      await run(`prepare ${name} as ${statement.text(session.schema)}`);
      // Others' DDL may have emptied this session's caches, at any time: the catalogs' pages, read anew, are counted too.
      for (let turn = 0; turn < TURNS; turn++) {
        await run("savepoint before");
        const [row] = await run(
          `explain (analyze, buffers, format json) execute ${name}${values === "" ? "" : ` (${values})`}`,
        );
        await run("rollback to savepoint before");
        const seen = flat(JSON.parse(row![0]!)[0].Plan as PlanNode);
        if (turn === 0 || pages(seen) < pages(nodes)) nodes = seen;
      }
      await run(`deallocate ${name}`);
      throw new Undo();
    })
    .catch((error: unknown) => {
      if (!(error instanceof Undo)) throw error;
    });
  return nodes;
}

/** Pages that the whole statement went through; its root has those of all. */
export const pages = ([root]: readonly PlanNode[]): number =>
  root!["Shared Hit Blocks"] + root!["Shared Read Blocks"];

/** Explains each statement that is sent through it, and then runs it. */
export function explaining(session: Session): { runner: Runner; plans: PlanNode[][] } {
  const plans: PlanNode[][] = [];
  const literal = (value: unknown) =>
    value === null
      ? "null"
      : `'${String(value as string | number | boolean).replaceAll("'", "''")}'`;
  const runner: Runner = {
    run: async (statement, values = []) => {
      plans.push(await explain(session, statement, values.map(literal).join(", ")));
      return await session.run(statement, values);
    },
  };
  return { runner, plans };
}
