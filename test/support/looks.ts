import { jest } from "@jest/globals";
import { Session } from "../../libs/jobs/src/pg/session.js";
import type { Bench } from "./harness.js";

/** Counts what those who follow jobs have sent since. `jest.restoreAllMocks()` ends it. */
export function looks(bench: Bench): () => number {
  const sent = jest.spyOn(Session.prototype, "run");
  return () => {
    const texts = sent.mock.calls.map(([statement]) => statement.text(bench.schema));
    return texts.filter((text) => /unfinished|with ordinality f/.test(text)).length;
  };
}
