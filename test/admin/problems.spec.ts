import { ConflictException, Controller, Get, Module, Param, UseFilters } from "@nestjs/common";
import {
  BadCursorError,
  DatabaseUnavailableError,
  EnqueueOutcomeUnknownError,
  JobLockedError,
  SchemaNotReadyError,
} from "nestjs-pg-jobs";
import { ProblemException, ProblemFilter } from "nestjs-pg-jobs-admin";
import { ADAPTERS, AdminApp, TOKENS } from "../support/admin-app.js";
import { Bench } from "../support/harness.js";

// What becomes of errors: a stable code, and nothing of what is ours.

const ERRORS: Record<string, unknown> = {
  cursor: new BadCursorError('"x"'),
  locked: new JobLockedError("1-1"),
  away: new DatabaseUnavailableError("the password of it"),
  schema: new SchemaNotReadyError("jobs", 1, 4, "pauses"),
  unknown: new EnqueueOutcomeUnknownError(["1-7"]),
  nest: new ConflictException("taken"),
  own: new ProblemException(410, "GONE_FOR_GOOD", "It is gone.", { since: 1 }),
  fastify: Object.assign(new Error("Too long"), { code: "FST_ERR_CTP_X", statusCode: 413 }),
  ours: new TypeError("a secret of ours"),
  null: null,
  text: "a secret of ours",
};

@Controller("throws")
@UseFilters(ProblemFilter)
class Throws {
  @Get(":which")
  which(@Param("which") which: string): never {
    throw ERRORS[which];
  }
}
@Module({ controllers: [Throws] })
class ThrowsModule {}

describe.each(ADAPTERS)("on %s", (adapter) => {
  let bench: Bench;
  let admin: AdminApp;
  beforeAll(async () => {
    bench = await Bench.open();
    admin = await AdminApp.open(bench, adapter, { tokens: TOKENS, imports: [ThrowsModule] });
  });
  afterAll(async () => {
    await admin.close();
    await bench.close();
  });

  it.each([
    ["cursor", 400, "CURSOR_INVALID", null, {}],
    ["locked", 409, "JOB_LOCKED", null, {}],
    ["away", 503, "DATABASE_UNAVAILABLE", "5", {}],
    ["schema", 503, "SCHEMA_NOT_READY", "5", {}],
    // Who repeats it may do it twice.
    ["unknown", 503, "ENQUEUE_OUTCOME_UNKNOWN", null, { ids: ["1-7"] }],
    ["nest", 409, "CONFLICT", null, { detail: "taken" }],
    ["own", 410, "GONE_FOR_GOOD", null, { detail: "It is gone.", since: 1 }],
    ["fastify", 413, null, null, { detail: "Too long" }],
    ["ours", 500, "INTERNAL", null, {}],
    ["null", 500, "INTERNAL", null, {}],
    ["text", 500, "INTERNAL", null, {}],
  ])("%s is %i %s", async (which, status, code, retry, more) => {
    const answer = await fetch(`${admin.url}/throws/${which}`);
    const body = (await answer.json()) as Record<string, unknown>;
    expect(answer.status).toBe(status);
    expect(body).toMatchObject({ type: "about:blank", status, ...(code ? { code } : {}), ...more });
    expect(answer.headers.get("content-type")).toMatch(/^application\/problem\+json/);
    expect(answer.headers.get("retry-after")).toBe(retry);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(JSON.stringify(body)).not.toMatch(/secret|password/);
  });
});
