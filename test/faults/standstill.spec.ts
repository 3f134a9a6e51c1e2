import { jest } from "@jest/globals";
import { Logger } from "@nestjs/common";
import { JobQueue } from "nestjs-pg-jobs";
import { Session } from "../../libs/jobs/src/pg/session.js";
import { handler, reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";

// A claim loop that stands still for ever, as only a fault of ours could make it, while the database answers.

let bench: Bench;
beforeAll(async () => void (bench = await Bench.open()));
afterAll(async () => {
  await bench.close();
  jest.restoreAllMocks();
});

it("is repaired and told of, and jobs run again", async () => {
  const warned: unknown[] = [];
  jest.spyOn(Logger.prototype, "warn").mockImplementation((line) => void warned.push(line));
  const app = await bench.worker([handler("works", () => "done")]);
  const jobs = app.get(JobQueue);
  const { id } = await jobs.enqueue("works");
  await reached(bench, id, "succeeded");

  // oxlint-disable-next-line typescript/unbound-method -- called on the session that it is asked of
  const { exclusive } = Session.prototype;
  let hung = 0;
  jest.spyOn(Session.prototype, "exclusive").mockImplementation(function (this: Session, fn) {
    // The next look: what it waits for never comes, and claims wait behind it.
    if (hung > 0 || !String(fn).includes("takeOver")) return exclusive.call(this, fn);
    hung++;
    return exclusive.call(this, () => new Promise(() => {}));
  });
  const late = await jobs.enqueue("works");
  await reached(bench, late.id, "succeeded", { timeout: 30_000 });
  expect(hung).toBe(1);
  // A claim that waited behind it may be told of too.
  expect(warned[0]).toMatch(/^the claim loop stands still although/);
}, 45_000);
