/** Concurrent calls go together into the next statement; each resolves once that has committed. */
export function coalesced(send) {
  let waiting = [];
  let busy = false;
  const turn = async () => {
    busy = true;
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      try {
        await send(batch.map(({ item }) => item));
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    busy = false;
  };
  return async (item) =>
    await new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (!busy) void turn();
    });
}
