import type { Claim } from "../../libs/jobs/src/store/transitions/claim.js";
import { bury } from "../../libs/jobs/src/store/transitions/bury.js";
import { enqueueFenced } from "../../libs/jobs/src/store/transitions/enqueue-fenced.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import { renewLeases } from "../../libs/jobs/src/store/transitions/renew.js";
import { requeue } from "../../libs/jobs/src/store/transitions/requeue.js";
import { retry } from "../../libs/jobs/src/store/transitions/retry.js";
import { skip } from "../../libs/jobs/src/store/transitions/skip.js";
import { snooze } from "../../libs/jobs/src/store/transitions/snooze.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { fenceValues } from "../../libs/jobs/src/store/transitions/fence.js";
import { Bench } from "../support/harness.js";
import { Hands } from "../support/hands.js";

// Every verb in every state: only the current attempt of a job can do anything to it.

interface Fence {
  id: string;
  attempt: number;
  worker: number;
}

let bench: Bench;
let hands: Hands;
let mine: number;
let theirs: number;
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  [mine, theirs] = [await hands.worker(1), await hands.worker(2)];
});
afterAll(async () => await bench.close());
beforeEach(
  async () => void (await bench.sql("truncate jobs.job, jobs.done, jobs.dead, jobs.attempt_error")),
);

const error = JSON.stringify({ name: "Error", message: "boom" });

/** Answers whether the statement found the attempt to be the current one. */
const VERBS: Record<string, (fence: Fence) => Promise<boolean>> = {
  succeed: async (f) =>
    (await succeed(hands.session, hands.queueId, f.worker, [{ ...f, result: "7" }])).has(f.id),
  skip: async (f) =>
    (await skip(hands.session, hands.queueId, f.worker, [{ ...f, result: '{"reason":"r"}' }])).has(
      f.id,
    ),
  snooze: async (f) =>
    (await snooze(hands.session, hands.queueId, f.worker, [{ ...f, delayMs: 60_000 }])).has(f.id),
  retry: async (f) =>
    (await retry(hands.session, hands.queueId, f.worker, [{ ...f, delayMs: 60_000, error }])).has(
      f.id,
    ),
  bury: async (f) =>
    (
      await bury(hands.session, hands.queueId, f.worker, [
        { ...f, error, reason: "exhausted", failed: true },
      ])
    ).has(f.id),
  "hand back": async (f) =>
    (
      await handBack(hands.session, hands.queueId, f.worker, [
        { ...f, started: true, quarantine: false },
      ])
    ).has(f.id),
  renew: async (f) =>
    (await hands.session.run(renewLeases, [...fenceValues(hands.queueId, f.worker, [f]), 90_000]))
      .length > 0,
  "enqueue a child": async (f) => {
    const child = String(Date.now());
    const { queue, lane, kind, priority } = hands;
    const job = { id: child, queue, lane, kind, priority, delayMs: 0, at: null, attempts: null };
    return (
      (await enqueueFenced(hands.session, { ...f, queueId: hands.queueId }, hands.queueId, {
        ...job,
        timeoutMs: null,
        key: null,
        payload: "{}",
      })) !== "lost"
    );
  },
};

/** Claimed by us, lost to another worker, whose attempt 2 then became what the state says. */
const AFTER: Record<string, (second: Claim) => Promise<unknown>> = {
  "running, claimed by another worker": async () => undefined,
  queued: async (claim) => await VERBS["hand back"]!(claim),
  "queued, snoozed": async (claim) => await VERBS.snooze!(claim),
  "queued, to be retried": async (claim) => await VERBS.retry!(claim),
  succeeded: async (claim) => await VERBS.succeed!(claim),
  skipped: async (claim) => await VERBS.skip!(claim),
  dead: async (claim) => await VERBS.bury!(claim),
  requeued: async (claim) => {
    await VERBS.bury!(claim);
    await requeue(hands.session, hands.queueId, claim.id, null);
  },
  "requeued and running": async (claim) => {
    await AFTER.requeued!(claim);
    await hands.claim(theirs);
  },
  "running, claimed anew by ourselves": async (claim) => {
    await VERBS["hand back"]!(claim);
    await hands.claim(mine);
  },
};

async function superseded(state: string): Promise<Fence> {
  await hands.add();
  const [first] = await hands.claim(mine);
  await hands.expire(first!.id);
  const [second] = await hands.claim(theirs, { takeOver: true });
  expect([first!.attempt, second!.attempt]).toEqual([1, 2]);
  await AFTER[state]!(second!);
  return { id: first!.id, attempt: 1, worker: mine };
}

describe.each(Object.keys(AFTER))("a job that is %s", (state) => {
  it.each(Object.keys(VERBS))("is not touched when a superseded attempt would %s", async (verb) => {
    const old = await superseded(state);
    const before = await hands.trace(old.id);
    // The right attempt of the wrong worker, and the right worker with the wrong attempt, as well.
    const current = JSON.parse(before)[0].row;
    const half = [
      { ...old, attempt: current.attempt },
      { ...old, worker: current.worker ?? theirs },
      { ...old, attempt: current.attempt + 1, worker: current.worker ?? theirs },
    ].filter((one) => one.attempt !== current.attempt || one.worker !== current.worker);
    for (const fence of [old, ...half]) {
      expect([verb, fence, await VERBS[verb]!(fence)]).toEqual([verb, fence, false]);
      expect(await hands.trace(old.id)).toBe(before);
    }
    const all = await bench.sql("select id from jobs.job_status");
    expect(all).toHaveLength(1);
  });
});

describe("the current attempt", () => {
  const start = async () => {
    await hands.add({ attempts: 3 });
    return (await hands.claim(mine))[0]!;
  };
  const row = async (id: string) =>
    (await bench.sql("select * from jobs.job_status where number = $1", [id]))[0];

  it.each([
    ["succeed", { state: "succeeded", result: 7, failures: 0, last_error: null }],
    ["skip", { state: "skipped", result: { reason: "r" }, failures: 0, last_error: null }],
    ["snooze", { state: "queued", result: null, failures: 0, worker: null, finished_at: null }],
    ["retry", { state: "queued", result: null, failures: 1, worker: null, last_error: "boom" }],
    ["bury", { state: "dead", result: null, failures: 1, last_error: "boom" }],
    ["hand back", { state: "queued", result: null, failures: 0, worker: null }],
    ["renew", { state: "running", failures: 0, worker: "hands:1" }],
    ["enqueue a child", { state: "running", failures: 0, worker: "hands:1" }],
  ])("can %s", async (verb, expected) => {
    const claim = await start();
    const before = await row(claim.id);
    expect(await VERBS[verb]!(claim)).toBe(true);
    expect(await row(claim.id)).toMatchObject({ attempt: 1, attempts: 3, ...expected });
    const moved = (await row(claim.id))!.run_at > before!.run_at;
    expect(moved).toBe(verb === "snooze" || verb === "retry");
  });

  it("of a batch decides each job by itself", async () => {
    const ids = await hands.addMany(4);
    await hands.claim(mine);
    await hands.expire(ids[1]!);
    await hands.claim(theirs, { takeOver: true });
    for (const [verb, method] of Object.entries({ succeed, skip })) {
      const batch = ids
        .slice(0, verb === "succeed" ? 2 : 4)
        .map((id) => ({ id, attempt: 1, result: null }));
      const done = await method(hands.session, hands.queueId, mine, batch);
      // Those of the first batch have been settled by the same attempt: they are not lost (rule 13).
      expect([...done].sort()).toEqual(
        batch
          .map(({ id }) => id)
          .filter((id) => id !== ids[1])
          .sort(),
      );
    }
    const states = ids.map(async (id) => await bench.state(hands.named(id)));
    expect(await Promise.all(states)).toEqual(["succeeded", "running", "skipped", "skipped"]);
  });
});
