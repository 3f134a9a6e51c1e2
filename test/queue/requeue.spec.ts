import { Injectable } from "@nestjs/common";
import { JobHandler, type JobQueue, bury } from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { until } from "../support/until.js";

@Injectable()
class Handlers {
  @JobHandler("dies")
  dies() {
    return bury("no use");
  }
}

describe("requeue", () => {
  let bench: Bench;
  let people: JobQueue[];
  let dead: string[];
  beforeAll(async () => {
    bench = await Bench.open();
    people = [await bench.producer(), await bench.producer({ payloadLimit: 100 })];
    const worker = await bench.worker([Handlers]);
    const sent = await people[0]!.enqueueMany(
      "dies",
      Array.from({ length: 40 }, (_, n) => ({ n })),
    );
    await until(async () => (await bench.states()).dead === 40, { what: "all are dead" });
    await worker.close();
    dead = sent.map(({ id }) => id);
  });
  afterAll(async () => await bench.close());

  it("by two processes at once lets one, and tells the other that it is not dead any more", async () => {
    const answers = new Map<string, number>();
    for (const id of dead.splice(0, 30)) {
      const both = await Promise.all(people.map((jobs) => jobs.requeue(id)));
      const pair = both.toSorted((a, b) => a.localeCompare(b)).join(" ");
      answers.set(pair, (answers.get(pair) ?? 0) + 1);
    }
    expect(Object.fromEntries(answers)).toEqual({ "not-requeueable queued": 30 });
  });

  it("keeps the payload when none is given, undefined included", async () => {
    const id = dead.pop()!;
    const before = await people[0]!.get(id);
    expect(await people[0]!.requeue(id, { payload: undefined })).toBe("queued");
    expect((await people[0]!.get(id))?.payload).toEqual(before?.payload);
  });

  it("refuses a payload that is too large, or no JSON", async () => {
    const id = dead.pop()!;
    const [, small] = people;
    await expect(small!.requeue(id, { payload: "x".repeat(200) })).rejects.toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
      bytes: 202,
    });
    await expect(small!.requeue(id, { payload: NaN })).rejects.toMatchObject({
      code: "PAYLOAD_NOT_JSON",
    });
    expect(await bench.state(id)).toBe("dead");
  });
});
