// Waiting with an end.

const LOOK_MS = 5;

/** Until it holds, or the time is over. */
export async function until(check: () => boolean, ms: number): Promise<void> {
  const deadline = performance.now() + ms;
  while (!check() && performance.now() < deadline)
    await new Promise<void>((resolve) => setTimeout(resolve, LOOK_MS));
}

/** So long. */
export const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => void setTimeout(resolve, ms));

/** Until the work is done, or the time is over; what it comes to later is nobody's concern. */
export async function within(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([work, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
