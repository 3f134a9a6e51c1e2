// Those who enqueue: as fast as they can, or at a steady pace.
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "./clock.mjs";
import { payload, payloads } from "./payload.mjs";

/** So many callers, each with one call under way, for so long; numbers from `first` on. */
export async function flatOut(peer, { callers, seconds, first = 0, size = 1 }) {
  const from = now();
  const until = from + seconds * 1_000;
  let next = first;
  const caller = async () => {
    while (now() < until) {
      const n = next;
      next += size;
      await (size === 1 ? peer.enqueue(payload(n)) : peer.enqueueMany(payloads(n, size)));
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return { count: next - first, from, ms: now() - from };
}

/** Exactly so many jobs, by `size`; of `keys` tenants, due after `delay`. */
export async function fill(peer, { count, first = 0, size = 1_000, keys, delay }) {
  for (let done = 0; done < count; done += size)
    await peer.enqueueMany(
      payloads(first + done, Math.min(size, count - done), keys),
      delay && { delay },
    );
}

/** One after another, with pauses in between; answers when each call was made. */
export async function nowAndThen(peer, { count, first = 0, pauseMs = [30, 50] }) {
  const sentAt = new Float64Array(count);
  const [least, most] = pauseMs;
  for (let index = 0; index < count; index++) {
    sentAt[index] = now();
    await peer.enqueue(payload(first + index));
    await sleep(least + Math.random() * (most - least));
  }
  return sentAt;
}

/**
 * At so many a second whatever becomes of them; `call(n)` answers when job n could be seen. `achieved` is the pace at
 * which the calls came through: where they pile up, it is below the one that was asked for.
 */
export async function steadily({ count, perSecond }, call) {
  const sentAt = new Float64Array(count);
  const from = now();
  const calls = [];
  for (let index = 0; index < count; index++) {
    const due = from + (index / perSecond) * 1_000;
    while (now() < due) await sleep(1);
    calls.push(
      call(index).then((at) => {
        sentAt[index] = at;
      }),
    );
  }
  await Promise.all(calls);
  return { sentAt, achieved: (count / (now() - from)) * 1_000 };
}
