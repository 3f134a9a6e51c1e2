import { Stage } from "./stage.mjs";
import { sizeOf } from "./workloads/index.mjs";

/** One run of a workload with one peer: its figures, or what went wrong. */
export async function run(machine, { workload, peer, round }) {
  const at = new Date().toISOString();
  const from = performance.now();
  const about = () => ({
    at,
    workload: workload.name,
    peer,
    round,
    seconds: Math.round((performance.now() - from) / 100) / 10,
  });
  const stage = new Stage(machine, peer);
  try {
    await stage.set(workload);
    const figures = await workload.run(stage, sizeOf(workload, peer));
    return { ...about(), figures };
  } catch (error) {
    return { ...about(), problem: error.message };
  } finally {
    await stage.clear().catch((error) => console.error(`not cleared: ${error.message}`));
  }
}
