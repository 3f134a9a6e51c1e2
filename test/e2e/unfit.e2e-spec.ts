import { Bench } from "../support/harness.js";
import { type HttpApp, SampleApps } from "../support/sample-apps.js";

describe("what has the shape that is asked for, and yet cannot be a payload", () => {
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

  it("is answered 400, with where it stands", async () => {
    const thumbnail = await api.post("/thumbnails", { imageUrl: "https://x/é\u0000" });
    expect(thumbnail).toMatchObject({
      status: 400,
      body: { statusCode: 400, message: expect.stringContaining("payload.imageUrl") },
    });
    const event = await api.post("/events", { name: "order.placed", data: { note: "\0" } });
    expect(event).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining("payload.data.note") },
    });
    expect(await bench.states()).toEqual({});
  });
});
