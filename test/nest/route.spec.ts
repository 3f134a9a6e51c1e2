import { Controller, Module, Post } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Job, type JobContext, JobHandler, JobQueue, JobsModule, Payload } from "nestjs-pg-jobs";
import { reached } from "../support/handlers.js";
import { Bench } from "../support/harness.js";

@Controller()
class Both {
  @Post("both")
  @JobHandler("both", { attempts: 1 })
  run(@Payload() payload: object, @Job() job?: JobContext): object {
    return { payload, kind: job?.kind ?? null };
  }
}

describe("a handler that is a route too", () => {
  it("is answered as a route, and has no job there", async () => {
    const bench = await Bench.open();
    @Module({ controllers: [Both] })
    class Routes {}
    @Module({ imports: [bench.root(), JobsModule.forWorker({ imports: [Routes] })] })
    class App {}
    const app = await NestFactory.create(App, { logger: false, abortOnError: false });
    try {
      await app.listen(0, "127.0.0.1");
      const response = await fetch(`${await app.getUrl()}/both`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"n":1}',
        signal: AbortSignal.timeout(20_000),
      });
      expect(await response.json()).toEqual({ payload: { n: 1 }, kind: null });
      const { id } = await app.get(JobQueue).enqueue("both", { n: 1 });
      expect((await reached(bench, id, "succeeded")).result).toEqual({
        payload: { n: 1 },
        kind: "both",
      });
    } finally {
      await app.close();
      await bench.close();
    }
  });
});
