import { PARKED, QUARANTINED } from "../../libs/jobs/src/store/queues/lanes.js";
import { handBack } from "../../libs/jobs/src/store/transitions/hand-back.js";
import { Bench } from "../support/harness.js";
import { Hands, from } from "../support/hands.js";

let bench: Bench;
let hands: Hands;
let other: Hands;
beforeAll(async () => {
  bench = await Bench.open();
  hands = await Hands.open(bench);
  other = await Hands.open(bench, "default", "other", 7);
});
afterAll(async () => await bench.close());
beforeEach(async () => void (await bench.sql("truncate jobs.job")));

describe("a job that stands in a lane of another kind", () => {
  it.each([0, PARKED, QUARANTINED])("is handed back into its own, %i further on", async (aside) => {
    const own = await Hands.open(bench, "default", "work", 7);
    await own.add();
    await bench.sql("update jobs.job set lane = $1", [other.lane + aside]);
    const worker = await hands.worker();
    const [claim] = await hands.claim(worker, { lanes: [from(other.lane + aside)] });
    expect(claim).toMatchObject({ kind: "work", lane: other.lane + aside });
    const back = { started: false, quarantine: false, misplaced: true };
    await handBack(hands.session, hands.queueId, worker, [{ ...claim!, ...back }]);
    const [row] = await bench.sql("select lane, lease_until, failures, crashes from jobs.job");
    expect(row).toEqual({ lane: own.lane + aside, lease_until: null, failures: 0, crashes: 0 });
  });

  it("stays where it is while its own does not exist, or when it stands there", async () => {
    const worker = await hands.worker();
    for (const [lane, kind] of [
      [other.lane, "unheard"],
      [hands.lane, "work"],
    ] as const) {
      await hands.add();
      await bench.sql("update jobs.job set lane = $1, kind = $2 where lease_until is null", [
        lane,
        kind,
      ]);
      const [claim] = await hands.claim(worker, { lanes: [from(lane)] });
      const back = { started: false, quarantine: false, misplaced: true };
      await handBack(hands.session, hands.queueId, worker, [{ ...claim!, ...back }]);
      const [row] = await bench.sql("select lane, lease_until from jobs.job where kind = $1", [
        kind,
      ]);
      expect(row).toEqual({ lane, lease_until: null });
      await bench.sql("truncate jobs.job");
    }
  });
});
