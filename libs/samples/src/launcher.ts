// The apps' side of `npm start`: it hears when they are up, and they end when it is gone. Started by anybody
// else there is no channel, and nothing happens here.

/** What the launcher wants to hear. */
export type LauncherMessage = { type: "ready"; port: number } | { type: "succeeded"; id: string };

/** Tells the launcher, if there is one. */
export function tellLauncher(message: LauncherMessage): void {
  // it may end while we write
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

/** Without its launcher an app ends as after SIGTERM: it drains. */
export function endWithLauncher(): void {
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
}
