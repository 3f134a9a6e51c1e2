const TICK_MS = 10;
const MOST_MS = 100;

/**
 * How long this took, in ms of a loop that turns: of a while in which this process, or its whole machine, stood still
 * no more than 100 ms count. For upper bounds that are a promise; a stalled machine breaks those of a clock.
 */
export async function awake(work: Promise<unknown>): Promise<number> {
  let last = performance.now();
  let sum = 0;
  const tick = () => {
    const now = performance.now();
    sum += Math.min(now - last, MOST_MS);
    last = now;
  };
  const ticker = setInterval(tick, TICK_MS);
  try {
    await work;
  } finally {
    clearInterval(ticker);
    tick();
  }
  return sum;
}
