import { setFlagsFromString, getHeapSpaceStatistics } from "node:v8";
import { runInNewContext } from "node:vm";
import { AttemptTable } from "../../libs/jobs/src/worker/attempt-table.js";
import type { Handler } from "../../libs/jobs/src/handler/handler.js";
import { fixed } from "../../libs/jobs/src/job/backoff.js";
import { type Result, decide } from "../../libs/jobs/src/job/verdict.js";
import { readClaim } from "../../libs/jobs/src/store/transitions/claim.js";
import { Attempt, type AttemptPorts } from "../../libs/jobs/src/worker/attempt.js";
import { Bodies } from "../../libs/jobs/src/worker/bodies.js";
import { Deadlines } from "../../libs/jobs/src/worker/deadlines.js";
import { Pending } from "../../libs/jobs/src/worker/settlement.js";
import { attemptOf, claimOf } from "../support/claims.js";

const attempt = (slot: number, id: string, queueId = 1): Attempt =>
  Object.assign(attemptOf(claimOf({ id, queueId })), { slot });

describe("AttemptTable", () => {
  it("finds each by its job and by its slot, whatever shares a bucket with it", () => {
    const table = new AttemptTable();
    // The last digits are alike, or the numbers that these make are.
    const ids = ["7", "1000007", "91000007", "4103", "8199", "9223372036854775807"];
    const all = ids.map((id, slot) => attempt(slot, id));
    const elsewhere = attempt(ids.length, "7", 2);
    for (const one of [...all, elsewhere]) table.add(one);
    for (const gone of [1, 5, 0, 3]) {
      table.remove(all[gone]!);
      expect(table.find(1, ids[gone]!)).toBeUndefined();
      expect(table.at(gone)).toBeUndefined();
    }
    for (const there of [2, 4]) {
      expect(table.find(1, ids[there]!)).toBe(all[there]);
      expect(table.at(there)).toBe(all[there]);
    }
    expect(table.find(2, "7")).toBe(elsewhere);
    expect([...table]).toEqual([all[2], all[4], elsewhere]);
  });

  it.each([
    { first: "the older", order: [0, 1] },
    { first: "the newer", order: [1, 0] },
  ])("has two attempts of a job, finds the newer, and $first may go first", ({ order }) => {
    const table = new AttemptTable();
    const both = [attempt(0, "5"), attempt(1, "5")];
    for (const one of both) table.add(one);
    expect(table.find(1, "5")).toBe(both[1]);
    const [first, last] = order as [number, number];
    table.remove(both[first]!);
    expect(table.find(1, "5")).toBe(both[last]);
    table.remove(both[last]!);
    expect(table.find(1, "5")).toBeUndefined();
  });

  it("is what a Map would be, over 20,000 jobs that come and go in 50 slots", () => {
    const table = new AttemptTable();
    const map = new Map<string, Attempt>();
    const free = Array.from({ length: 50 }, (_, slot) => slot);
    for (let n = 0; n < 20_000; n++) {
      const slot = free.pop();
      if (slot !== undefined) {
        const one = attempt(slot, String(1_048_577 + n * 7));
        table.add(one);
        map.set(one.claim.id, one);
      }
      const all = [...map.values()];
      const out = all[(n * 31) % all.length]!;
      expect(table.find(1, out.claim.id)).toBe(out);
      if (n % 50 < 49 && slot !== undefined && free.length > 0) continue;
      table.remove(out);
      map.delete(out.claim.id);
      free.push(out.slot);
    }
    expect(new Set(table)).toEqual(new Set(map.values()));
  });
});

describe("Bodies", () => {
  it("has each once, and forgets it wherever it stands", () => {
    const bodies = new Bodies();
    const all = Array.from({ length: 5 }, (_, slot) => attempt(slot, String(slot)));
    for (const one of [...all, all[2]!]) bodies.add(one);
    for (const at of [0, 4, 2, 2]) bodies.delete(all[at]!);
    expect(new Set(bodies)).toEqual(new Set([all[1], all[3]]));
    expect(all.map((one) => bodies.has(one))).toEqual([false, true, false, true, false]);
    expect(bodies.size).toBe(2);
  });

  it("may lose some while somebody goes through them", () => {
    const bodies = new Bodies();
    const all = Array.from({ length: 5 }, (_, slot) => attempt(slot, String(slot)));
    for (const one of all) bodies.add(one);
    const met = [];
    for (const one of bodies) {
      met.push(one);
      bodies.delete(one);
    }
    expect(met).toHaveLength(5);
    expect(bodies.size).toBe(0);
  });
});

describe("what goes through all three", () => {
  // The old generation is where V8 may make objects of literals that outlive their first collections.
  it("is made by classes, not by literals", () => {
    const claim = readClaim("1,0,1,0,0,3,,2026-01-01,{},,job,f".split(","), 1, 1);
    const policy = { backoff: fixed("1s") };
    const results: Result[] = [
      { type: "returned", value: 1 },
      { type: "threw", error: new Error("x") },
    ];
    const decisions = results.map((result) =>
      decide({ failures: 0, attempts: 3 }, result, policy, Math.random),
    );
    const pending = new Pending(attempt(0, "1"), { verb: "succeed", result: 1 }, null);
    for (const one of [claim, ...decisions, pending])
      expect(Object.getPrototypeOf(one)).not.toBe(Object.prototype);
  });

  // A Map or a Set in place of one of them keeps some 100 MB of these, from the first full collection to the next.
  it("dies young: nothing of it is in the old generation", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const table = new AttemptTable();
    const bodies = new Bodies();
    const deadlines = new Deadlines<Attempt>(() => {});
    const { handler, ports } = attempt(0, "0") as unknown as {
      handler: Handler;
      ports: AttemptPorts;
    };
    const held: Attempt[] = Array.from({ length: 1_000 });
    let n = 0;
    const pass = async (count: number) => {
      for (const end = n + count; n < end; n++) {
        const slot = n % held.length;
        const before = held[slot];
        if (before) {
          table.remove(before);
          bodies.delete(before);
          deadlines.remove(before, 60_000);
        }
        // As PostgreSQL's answer is read: literals here would be kept themselves.
        const row = `${n},0,1,0,0,3,,2026-01-01,{"n":${n}},,job,f`.split(",");
        const one = new Attempt(readClaim(row, 1, 1), handler, "default", ports);
        one.slot = slot;
        table.add(one);
        bodies.add(one);
        deadlines.add(one, 60_000);
        held[slot] = one;
        if (n % 5_000 === 0) await new Promise((turn) => setImmediate(turn));
      }
    };
    await pass(20_000);
    collect();
    const from = oldMegabytes();
    await pass(150_000);
    expect(oldMegabytes() - from).toBeLessThan(10);
    deadlines.clear();
  });
});

const oldMegabytes = (): number =>
  getHeapSpaceStatistics().find(({ space_name: name }) => name === "old_space")!.space_used_size /
  1e6;
