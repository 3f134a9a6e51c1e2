/** What the server spent on some work, and what the work says that its clients did. */
export async function costOf(stage, work) {
  const before = await stage.spent();
  const clientMs = await work();
  const after = await stage.spent();
  return {
    clientMs,
    serverMs: after.serverMs - before.serverMs,
    walBytes: after.walBytes === undefined ? undefined : after.walBytes - before.walBytes,
  };
}
