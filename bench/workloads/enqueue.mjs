import { costOf } from "./cost.mjs";
import { stored } from "./exactly-once.mjs";

const WARM_UP_SECONDS = 0.3;

/** Callers that enqueue as fast as they are answered; nobody works. */
export async function enqueue(stage, { callers, seconds, size = 1 }) {
  const { producer } = stage;
  const warm = await producer.call("flatOut", { callers, size, seconds: WARM_UP_SECONDS });
  let made;
  const { clientMs, serverMs } = await costOf(stage, async () => {
    const before = await producer.call("cpuMs");
    made = await producer.call("flatOut", { callers, size, seconds, first: warm.count });
    return (await producer.call("cpuMs")) - before;
  });
  await stored(stage, warm.count + made.count);
  return {
    rate: (made.count / made.ms) * 1_000,
    clientMs: (clientMs / made.count) * 1_000,
    serverMs: (serverMs / made.count) * 1_000,
  };
}
