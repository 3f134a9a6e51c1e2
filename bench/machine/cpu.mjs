import { readFileSync, readdirSync } from "node:fs";

const TICK_MS = 10; // USER_HZ is 100 wherever /proc is

/** CPU time of a server: its process, those it has started, and those of them that have ended. */
export function serverCpuMs(pid) {
  const own = readStat(pid);
  if (!own) return 0;
  let ticks = own.ticks + own.ofEnded;
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = readStat(name);
    if (stat?.parent === pid) ticks += stat.ticks + stat.ofEnded;
  }
  return ticks * TICK_MS;
}

function readStat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // the name of the program, in parentheses, may hold anything
    const fields = text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    const [, parent, , , , , , , , , , user, system, userOfEnded, systemOfEnded] = fields;
    return { parent, ticks: user + system, ofEnded: userOfEnded + systemOfEnded };
  } catch {
    return undefined; // it has ended
  }
}
