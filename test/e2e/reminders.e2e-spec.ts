import { JobQueue } from "nestjs-pg-jobs";
import { Reminder, SendReminder } from "nestjs-pg-jobs-samples";
import { randomUUID } from "node:crypto";
import { DataSource } from "typeorm";
import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps, asAdmin } from "../support/sample-apps.js";
import { until } from "../support/until.js";

// The story of the sample: a reminder is saved with its job, sent, or retried and in the end a dead letter.

let bench: Bench;
let apps: SampleApps;
let api: HttpApp;

beforeAll(async () => {
  bench = await Bench.open();
  apps = new SampleApps(bench.schema);
  api = await apps.api();
});
afterAll(async () => {
  await apps.close();
  await bench.close();
});

const reminder = async (id: unknown) => (await api.get(`/reminders/${id as string}`)).body;
const job = async (id: unknown) =>
  (
    await bench.sql<{ state: string; failures: number; wait: number }>(
      `select state, failures, extract(epoch from run_at - now())::float8 as wait
       from jobs.job_status where id = $1`,
      [id],
    )
  )[0];

describe("POST /reminders", () => {
  it("saves the reminder and its job", async () => {
    const { status, body } = await api.post("/reminders", { to: "ada@example.com", text: "Tea" });
    expect(status).toBe(201);
    expect(body).toEqual({ id: expect.any(String), jobId: expect.stringMatching(/^\d+-\d+$/) });
    expect(await reminder(body.id)).toMatchObject({
      to: "ada@example.com",
      text: "Tea",
      state: "pending",
      sentAt: null,
    });
    const [row] = await bench.sql("select * from jobs.job_status where id = $1", [body.jobId]);
    expect(row).toMatchObject({
      kind: "reminder.send",
      queue: "mail",
      state: "queued",
      payload: { reminderId: body.id },
    });
  });

  it("runs no job itself", async () => {
    const { jobId } = (await api.post("/reminders", { to: "ada@example.com", text: "Tea" })).body;
    const health = await api.get("/health");
    expect(health).toMatchObject({
      status: 200,
      body: { status: "ok", details: { jobs: { status: "up" } } },
    });
    // It is open to everybody, and tells nothing of what is in the tables.
    expect(JSON.stringify(health.body)).not.toMatch(/queue|backlog|lag|dead|reason|mail/i);
    expect(await bench.state(String(jobId))).toBe("queued");
    expect(await bench.sql("select * from jobs.worker")).toEqual([]);
  });

  it.each([
    ["nothing", undefined, [/expected object/]],
    ["a list", [], [/expected object/]],
    ["a bad address", { to: "ada", text: "Tea" }, [/^to: Invalid email/]],
    ["no text", { to: "ada@example.com" }, [/^text: /]],
    ["an empty text", { to: "ada@example.com", text: "" }, [/^text: Too small/]],
    ["a NUL", { to: "ada@example.com", text: "a\0b" }, [/^text: NUL/]],
    ["a typo and more", { too: "ada@example.com", text: 5 }, [/^to: /, /^text: /, /"too"/]],
  ])("answers 400 with every problem for %s", async (_what, sent, problems) => {
    const { status, body } = await api.post("/reminders", sent);
    expect(status).toBe(400);
    expect(body.message).toEqual(problems.map((problem) => expect.stringMatching(problem)));
  });

  it("answers 400 for what is no JSON", async () => {
    expect(await api.post("/reminders", '{"to":')).toMatchObject({ status: 400 });
  });

  it("answers 404 and 400 for reminders that are not there", async () => {
    expect(await api.get(`/reminders/${randomUUID()}`)).toMatchObject({ status: 404 });
    expect(await api.get("/reminders/7")).toMatchObject({ status: 400 });
  });

  it("sends the headers of an API", async () => {
    const { headers } = await api.get("/health");
    expect(headers.get("content-security-policy")).toBe(
      "default-src 'none';frame-ancestors 'none'",
    );
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.has("x-powered-by")).toBe(false);
    expect(headers.has("strict-transport-security")).toBe(false);
  });
});

describe("the transaction", () => {
  const insert = async (id: string, fail: boolean) => {
    let jobId = "";
    const dataSource = api.app.get(DataSource);
    const done = dataSource.transaction(async (em) => {
      await em.insert(Reminder, { id, to: "ada@example.com", text: "Tea" });
      jobId = (await api.app.get(JobQueue).in(em).enqueue(SendReminder, { reminderId: id })).id;
      expect(await bench.state(jobId)).toBeUndefined(); // not before the commit
      if (fail) throw new Error("changed my mind");
    });
    await done.catch((error: Error) => expect(error.message).toBe("changed my mind"));
    return jobId;
  };

  it("leaves both when it commits", async () => {
    const id = randomUUID();
    expect(await bench.state(await insert(id, false))).toBe("queued");
    expect(await api.get(`/reminders/${id}`)).toMatchObject({ status: 200 });
  });

  it("leaves neither when it is rolled back", async () => {
    const id = randomUUID();
    expect(await bench.state(await insert(id, true))).toBeUndefined();
    expect(await api.get(`/reminders/${id}`)).toMatchObject({ status: 404 });
  });
});

describe("with a worker", () => {
  let admin: HttpApp;
  beforeAll(async () => {
    admin = await apps.admin();
    await apps.worker();
  });

  it("sends reminders", async () => {
    const { id, jobId } = (await api.post("/reminders", { to: "g@example.com", text: "Tea" })).body;
    await until(async () => (await job(jobId))?.state === "succeeded", { what: "it is sent" });
    expect(await reminder(id)).toMatchObject({ state: "sent", sentAt: expect.any(String) });
    expect((await admin.get(`/admin/jobs/${String(jobId)}`, asAdmin)).body).toMatchObject({
      state: "succeeded",
      result: { messageId: `${String(jobId)}@mail.example.com` },
      errors: [],
    });
  });

  it("does not send one twice", async () => {
    const { id, jobId } = (await api.post("/reminders", { to: "g@example.com", text: "Tea" })).body;
    await until(async () => (await job(jobId))?.state === "succeeded", { what: "it is sent" });
    const reminderId = String(id);
    const again = await api.app.get(JobQueue).enqueue(SendReminder, { reminderId });
    await until(async () => (await job(again.id))?.state === "skipped", { what: "it is skipped" });
    expect((await api.app.get(JobQueue).get(again.id))?.result).toEqual({
      reason: "it was sent before",
    });
  });

  it("retries after 30s, 2m and 8m, then keeps a dead letter, which can be requeued", async () => {
    const created = await api.post("/reminders", { to: "alan@mail.invalid", text: "Run" });
    const { id, jobId } = created.body;
    const path = `/admin/jobs/${String(jobId)}`;
    for (const [index, wait] of [30, 120, 480].entries()) {
      const row = await until(
        async () => {
          const found = await job(jobId);
          return found?.state === "queued" && found.failures === index + 1 ? found : undefined;
        },
        { what: `attempt ${index + 1} has failed` },
      );
      // The reader's now() may be a little older than the writer's, and the row there all the same.
      expect(row.wait).toBeLessThan(wait + 0.5);
      expect(row.wait).toBeGreaterThan(wait - 5);
      await bench.age(String(jobId), `${wait} seconds`);
    }
    await until(async () => (await job(jobId))?.state === "dead", { what: "it is dead" });
    expect(await reminder(id)).toMatchObject({ state: "pending", sentAt: null });

    const letter = (await admin.get(path, asAdmin)).body as unknown as {
      errors: { attempt: number; startedAt: string; failedAt: string; error: unknown }[];
    };
    expect(letter).toMatchObject({
      id: jobId,
      kind: "reminder.send",
      queue: "mail",
      state: "dead",
      failures: 4,
      payload: { reminderId: id },
      lastError: "the mail server refuses mail to mail.invalid",
    });
    expect(letter.errors.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4]);
    for (const { startedAt, failedAt, error } of letter.errors) {
      expect(Date.parse(failedAt)).toBeGreaterThanOrEqual(Date.parse(startedAt));
      expect(error).toMatchObject({
        name: "MailRefusedError",
        message: "the mail server refuses mail to mail.invalid",
        stack: expect.stringContaining("Mailer.send"),
        cause: { message: "getaddrinfo ENOTFOUND mail.invalid", stack: expect.any(String) },
      });
    }

    // somebody corrects the address and sends it again
    await bench.sql("update samples.reminder set recipient = 'alan@example.com' where id = $1", [
      id,
    ]);
    expect(await admin.post(`${path}/requeue`, undefined, asAdmin)).toMatchObject({
      status: 200,
      body: { id: jobId, state: "queued" },
    });
    await until(async () => (await job(jobId))?.state === "succeeded", { what: "it is sent" });
    expect(await reminder(id)).toMatchObject({ state: "sent" });
    expect((await admin.get(path, asAdmin)).body).toMatchObject({ attempt: 5, failures: 0 });
    expect(await admin.post(`${path}/requeue`, undefined, asAdmin)).toMatchObject({
      status: 409,
      body: { code: "JOB_NOT_REQUEUEABLE", state: "succeeded" },
    });
  });
});
