import { until } from "../../../../test/support/until.js";
import { LoopDelay } from "./loop-delay.js";

const BLOCK_MS = 300;

function block(): void {
  const end = performance.now() + BLOCK_MS;
  while (performance.now() < end) Math.sqrt(end);
}

it("tells how late the loop was since the reading before", async () => {
  const delay = new LoopDelay(0);
  let turn = 0;
  // After a reading it must have ticked once before it can be late.
  const blocked = await until(
    () => {
      if (turn++ % 2 === 0) {
        block();
        return undefined;
      }
      const last = delay.read();
      return last.max > BLOCK_MS / 2_000 ? last : undefined;
    },
    { what: "it has met a loop that was blocked", every: 60 },
  );
  expect(blocked.max).toBeLessThan(10);
  expect(blocked.p50).toBeLessThanOrEqual(blocked.p99);
  expect(blocked.p99).toBeLessThanOrEqual(blocked.max);
  await until(() => delay.read().max < BLOCK_MS / 2_000, { what: "that is over", every: 50 });
  delay.stop();
});

it("tells the same to whoever asks at the same time", async () => {
  const delay = new LoopDelay();
  const first = delay.read();
  block();
  expect(delay.read()).toBe(first);
  delay.stop();
});
