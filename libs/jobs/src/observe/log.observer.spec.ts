import { ConsoleLogger, Logger } from "@nestjs/common";
import { Events } from "./events.js";
import { logEvents } from "./log.observer.js";

afterEach(() => {
  Logger.overrideLogger(new ConsoleLogger());
  Logger.overrideLogger(["log", "error", "warn", "debug", "verbose", "fatal"]);
});

it("hears only what is logged at the levels of the app, whenever they are chosen", () => {
  const events = new Events();
  const stop = logEvents(events);
  expect(events.heard("retried")).toBe(true);
  Logger.overrideLogger(["error"]);
  expect(events.heard("retried")).toBe(false);
  expect(events.heard("died")).toBe(true);
  stop();
  expect(events.heard("died")).toBe(false);
});

it("leaves it to a logger of the app's own, and hears nothing when there is none", () => {
  const events = new Events();
  const lines: unknown[] = [];
  const own = { log: () => {}, error: () => {}, warn: (...line: unknown[]) => lines.push(line) };
  logEvents(events);
  Logger.overrideLogger(["error"]);
  Logger.overrideLogger(own);
  expect(events.heard("retried")).toBe(true);
  events.emit({ event: "retried", id: "1-1", kind: "k", queue: "q" });
  expect(lines).toHaveLength(1);
  Logger.overrideLogger(false);
  expect(events.heard("retried")).toBe(false);
});

it("tells nobody of what he does not attend to, and the others all the same", () => {
  const events = new Events();
  const told: string[] = [];
  events.on(
    ["started"],
    () => told.push("deaf"),
    () => false,
  );
  events.on(["started"], () => told.push("keen"));
  expect(events.heard("started")).toBe(true);
  events.emit({ event: "started", id: "1-1", kind: "k", queue: "q" });
  expect(told).toEqual(["keen"]);
});
