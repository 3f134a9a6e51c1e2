import { Logger, Module } from "@nestjs/common";
import { JobsModule, runWorker } from "nestjs-pg-jobs";
import { Bench, feature } from "../support/harness.js";
import { handler } from "../support/handlers.js";

describe("runWorker, one after another in one process", () => {
  let bench: Bench;
  beforeAll(async () => void (bench = await Bench.open()));
  afterAll(async () => await bench.close());

  beforeAll(() => Logger.overrideLogger(false));
  afterAll(() => Logger.overrideLogger(["error", "fatal"]));

  it("leaves no listener behind", async () => {
    const listeners = () => ["SIGTERM", "SIGINT"].map((signal) => process.listenerCount(signal));
    const before = listeners();
    @Module({
      imports: [
        bench.root(),
        JobsModule.forWorker({ imports: [feature([handler("quick", () => "done")])] }),
      ],
    })
    class App {}
    const worker = await runWorker(App);
    expect(listeners()).toEqual(before.map((count) => count + 1));
    expect(await worker.close()).toBe(true);
    expect(listeners()).toEqual(before);
  });
});
