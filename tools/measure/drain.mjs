// The bare loop of claims and settles: our statements on their sessions, and nothing around them.
import { monotonic } from "../../libs/jobs/dist/worker/held.js";
import { Cursor } from "../../libs/jobs/dist/worker/cursor.js";
import { claim } from "../../libs/jobs/dist/store/transitions/claim.js";
import { succeed } from "../../libs/jobs/dist/store/transitions/succeed.js";

/** Claims and settles until `count` jobs are done; the next claim overlaps with the settle. */
export async function drain(ground, { claims, settles, count, batch, cursor = new Cursor() }) {
  let done = 0;
  let settling = Promise.resolve(0);
  while (done < count) {
    const from = monotonic();
    const taken = await claim(claims, {
      queueId: ground.queueId,
      version: ground.version,
      lanes: cursor
        ? cursor.requests([{ lane: ground.lane, room: batch }], from)
        : [{ lane: ground.lane, room: batch, at: "-infinity", id: "0", backMs: 0 }],
      room: batch,
      leaseMs: 30_000,
      worker: ground.worker,
      takeOverUntil: "-infinity",
    });
    cursor?.learn(taken, taken.length === batch, monotonic() - from, monotonic());
    await settling;
    done += taken.length;
    if (taken.length > 0) {
      settling = succeed(
        settles,
        ground.queueId,
        ground.worker,
        taken.map(({ id, attempt }) => ({ id, attempt, result: null })),
      );
    }
  }
  await settling;
}

/** A session like ours, with some settings changed. */
export async function sessionWith(ground, purpose, changed = {}) {
  const session = ground.database.open(purpose);
  for (const [name, value] of Object.entries(changed)) {
    await session.run({ name: null, text: () => `set ${name} = ${value}` });
  }
  return session;
}
