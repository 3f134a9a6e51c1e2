import {
  Events,
  type JobEvent,
  JobInspector,
  type JobQueue,
  type StandardSchemaV1,
  defineJob,
  fixed,
} from "nestjs-pg-jobs";
import { Bench } from "../support/harness.js";
import { handler, reached } from "../support/handlers.js";
import { until } from "../support/until.js";

// A schema that fails in a worker has failed the attempt, as whatever a handler throws does.

const validate = (value: unknown) => {
  const { failing } = value as { failing: string };
  if (failing === "throws") throw new Error("the schema's own fault");
  if (failing === "rejects") return Promise.reject(new Error("the schema's own fault"));
  if (failing === "does not fit")
    return {
      issues: Array.from({ length: 30 }, (_, i) => ({
        message: `found "secret" ${"x".repeat(1_000)}`,
        path: ["items", i],
      })),
    };
  return { value };
};
const schema = { "~standard": { version: 1, vendor: "spec", validate } } as StandardSchemaV1;

describe("a schema that fails in a worker", () => {
  let bench: Bench;
  let jobs: JobQueue;
  let inspector: JobInspector;
  const ran: unknown[] = [];
  const told: JobEvent[] = [];
  beforeAll(async () => {
    bench = await Bench.open();
    jobs = await bench.producer();
    const Checked = defineJob("checked", { payload: schema, attempts: 2, backoff: fixed(1) });
    const app = await bench.worker([handler(Checked, (payload) => void ran.push(payload))]);
    inspector = app.get(JobInspector);
    app.get(Events).on(["retried", "died"], (event) => told.push(event));
  });
  afterAll(async () => await bench.close());

  it.each(["throws", "rejects"])("because it %s fails the attempt", async (failing) => {
    // Sent by a service that knows the kind by its name only.
    const { id } = await jobs.enqueue("checked", { failing });
    const dead = await reached(bench, id, "dead", { attempt: 2 });
    expect(dead).toMatchObject({ attempt: 2, failures: 2 });
    const [letter] = await bench.sql<{ errors: { error: object }[] }>(
      "select errors from jobs.dead where queue_id || '-' || id = $1",
      [id],
    );
    expect(letter!.errors.map(({ error }) => error)).toMatchObject(
      [1, 2].map(() => ({
        name: "PayloadCheckFailedError",
        message: expect.stringContaining('"checked"'),
        cause: { message: "the schema's own fault" },
      })),
    );
    expect(ran).toEqual([]);
  });

  it("because the payload does not fit: the dead letter says what and where, events do not", async () => {
    const { id } = await jobs.enqueue("checked", { failing: "does not fit" });
    await reached(bench, id, "dead", { attempt: 1 });
    const [first] = await inspector.attempts(id);
    expect(first!.error.name).toBe("PayloadInvalidError");
    expect(first!.error.issues).toHaveLength(20);
    expect(first!.error.issues![3]!.path).toBe("payload.items[3]");
    expect(first!.error.issues![3]!.message).toMatch(/^found "secret" x/);
    expect(first!.error.issues![3]!.message.length).toBeLessThanOrEqual(500);
    await until(() => told.some((event) => event.id === id), { what: "it is told" });
    expect(JSON.stringify(told)).not.toContain("secret");
  });
});
