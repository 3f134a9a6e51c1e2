import { defineJob } from "../job/definition.js";
import type { Handler } from "./handler.js";
import { lookalikes, unserved } from "./served-queues.js";

const handlers = (...queues: string[]): Handler[] =>
  queues.map((queue) => ({ name: queue, definition: defineJob("k", { queue }) }) as Handler);

describe("queues that are served, and those of the handlers", () => {
  it("names a served queue that reads like a handler's", () => {
    expect(lookalikes(handlers("mail", "default"), ["mail", "default", "mial"])).toEqual([
      { queue: "mial", didYouMean: "mail" },
    ]);
  });

  it("leaves a served queue alone that reads like none: calls may use it", () => {
    expect(lookalikes(handlers("mail"), ["mail", "overnight"])).toEqual([]);
  });

  it("names a handler's queue that is not served, and what it reads like", () => {
    expect(unserved(handlers("mail", "mial", "overnight"), ["mail"])).toEqual([
      expect.stringMatching(/^mial: its queue "mial" is not served; did you mean "mail"/),
      expect.stringMatching(/^overnight: its queue "overnight" is not served; add it/),
    ]);
  });
});
