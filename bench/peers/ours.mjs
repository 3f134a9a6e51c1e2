// The whole way, as a user has it: the built package, a Nest app, @JobHandler, finished jobs kept.
import { setTimeout as sleep } from "node:timers/promises";
import "reflect-metadata";
import { Module, UseInterceptors, UsePipes } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import {
  JobHandler,
  JobQueue,
  JobsModule,
  OnEvent,
  ScheduledJob,
  defineEvent,
  defineJob,
} from "nestjs-pg-jobs";
import { JobsAdminModule } from "nestjs-pg-jobs-admin";
import { Sql } from "./sql.mjs";

const SLOTS = { concurrency: 600, prefetch: 400 };
const atOnce = { delay: () => 0 };
const BENCH = { queue: "bench", attempts: 5, backoff: atOnce };
const Bench = defineJob("bench", BENCH);
const LIST = 1_000;

export function open({ url }) {
  const connection = { url };
  const sql = new Sql(url);
  const apps = [];
  let queue;
  let atFirst = 0;

  const start = async (imports) => {
    const app = await NestFactory.createApplicationContext(moduleOf({ imports }), {
      logger: ["error"], // of the others none writes a line for each failure
    });
    apps.push(app);
    return app;
  };
  /** By the counters, exact to the last commit: counting rows would walk the dead ones of the drain. */
  const unfinished = async () => {
    const { n } = await sql.numbers(
      `select coalesce(sum(n), 0) as n from (
         select n from jobs.stat where state = 0 union all select n from jobs.stat_delta where state = 0) counted`,
    );
    return n;
  };

  return {
    install: async () => {
      await start([JobsModule.forRoot({ connection, migrate: "on-start" })]);
      await sql.run("insert into jobs.queue (name) values ('bench')");
      await sql.run(
        "insert into jobs.lane (queue_id, id, kind, priority) select id, 0, 'bench', 0 from jobs.queue",
      );
    },
    seeds: seedsOf(sql, () => queue),

    produce: async () => {
      queue = (await start([JobsModule.forRoot({ connection })])).get(JobQueue);
      atFirst = await unfinished();
    },
    enqueue: async (payload) => await queue.enqueue(Bench, payload),
    enqueueMany: async (payloads, options) => await queue.enqueueMany(Bench, payloads, options),
    enqueueWithin: async (client, payload) => await queue.in(client).enqueue(Bench, payload),

    /** They are enqueued in lists; a few of them run meanwhile. */
    setAside: async (payloads) => {
      for (let done = 0; done < payloads.length; done += LIST)
        await queue.enqueueMany(Bench, payloads.slice(done, done + LIST));
      for (;;) {
        const { n } = await sql.numbers("select count(*) as n from jobs.parked");
        if (n > payloads.length * 0.98) return;
        await sleep(50);
      }
    },

    work: async (handle, { enhanced = false, beside = false, slots, limits = {} }) => {
      const handlers = handlersOf(handle, { enhanced, limits });
      await start([
        JobsModule.forRoot({ connection }),
        JobsModule.forWorker({
          imports: [moduleOf({ providers: [handlers, ...(beside ? [besideOf()] : [])] })],
          queues: {
            bench: slots ? { concurrency: slots } : SLOTS,
            ...(beside ? { default: {} } : {}),
          },
        }),
      ]);
    },

    /** The admin API on loopback; answers where. */
    administer: async () => {
      const imports = [
        JobsModule.forRoot({ connection }),
        JobsAdminModule.forRoot({ development: true }),
      ];
      const app = await NestFactory.create(moduleOf({ imports }), { logger: ["error"] });
      apps.push(app);
      await app.listen(0, "127.0.0.1");
      return `${await app.getUrl()}/admin`;
    },

    left: async () => (await unfinished()) > atFirst,
    tally: async () =>
      await sql.numbers(
        `select (select count(*) from jobs.job) as unfinished, (select count(*) from jobs.done where state = 1) as succeeded,
           (select count(*) from jobs.dead) as failed`,
      ),
    close: async () => {
      for (const app of apps) await app.close();
      await sql.close();
    },
  };
}

function handlersOf(handle, { enhanced, limits }) {
  class Handlers {
    bench(payload) {
      return handle(payload);
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Handlers.prototype, "bench");
  const kind = defineJob("bench", { ...BENCH, ...limits });
  JobHandler(kind)(Handlers.prototype, "bench", descriptor);
  if (enhanced) {
    UseInterceptors(new PassThrough())(Handlers.prototype, "bench", descriptor);
    UsePipes(new TakesObjects())(Handlers.prototype, "bench", descriptor);
  }
  return Handlers;
}

/** What else an app may have, in another queue: schedules, limits, subscribers. */
function besideOf() {
  class Beside {
    nightly() {}
    limited() {}
    placed() {}
  }
  const on = (method, decorator) =>
    decorator(Beside.prototype, method, Object.getOwnPropertyDescriptor(Beside.prototype, method));
  on("nightly", ScheduledJob("beside.nightly", { cron: "0 3 * * *" }));
  on(
    "limited",
    JobHandler(
      defineJob("beside.limited", {
        limit: { key: "tenant", max: 3 },
        rate: { max: 100, per: "1m" },
      }),
    ),
  );
  on("placed", OnEvent(defineEvent("beside.placed"), { name: "beside.placed" }));
  return Beside;
}

class PassThrough {
  intercept(_context, next) {
    return next.handle();
  }
}

class TakesObjects {
  transform(value) {
    if (typeof value !== "object") throw new TypeError("expected an object");
    return value;
  }
}

function moduleOf(metadata) {
  // oxlint-disable-next-line typescript/no-extraneous-class -- its decorator is a call
  const made = class {};
  Module(metadata)(made);
  return made;
}

const CHUNK = 1_000_000;
/** What waits in front of the admin API is of so many kinds. */
const KINDS = 50;

/** What has piled up before a run: by our own door where there is one, else as rows. */
function seedsOf(sql, queue) {
  const inChunks = async (count, insert) => {
    for (let from = 0; from < count; from += CHUNK)
      await sql.run(insert, [-count + from, -count + Math.min(from + CHUNK, count) - 1]);
  };
  const payloadOf = (text) =>
    `jsonb_build_object('n', n, 'to', 'ada@example.com', 'subject', 'hello', 'text', ${text})`;
  const PAYLOAD = payloadOf("repeat('x', 40)");
  // Now and then a large one: half a megabyte of payload, 27 kB of error.
  const MIXED = payloadOf("repeat('lorem ipsum ', case when n % 1000 = 0 then 40000 else 3 end)");
  const report = (frames) =>
    `jsonb_build_object('name', 'Error', 'message', 'seeded', 'stack', repeat('    at Mail.send (mail.handler.js:12:34)\n', ${frames}))`;
  const ERROR = `'{"name":"Error","message":"seeded"}'`;
  const MIXED_ERROR = report("case when n % 100 = 0 then 700 else 5 end");
  return {
    scheduled: async (count) => {
      for (let done = 0; done < count; done += 2_000)
        await queue().enqueueMany(
          Bench,
          Array.from({ length: Math.min(2_000, count - done) }, () => ({ n: -1, text: "later" })),
          { delay: "1d" },
        );
    },
    finished: async (count, payload = PAYLOAD) =>
      await inChunks(
        count,
        `insert into jobs.done (id, created_at, run_at, started_at, worker, attempt, queue_id, failures, lane, generation, state, kind, payload)
         select n, now(), now(), now(), 0, 1, q.id, 0, 0, 1, 1, 'bench', ${payload}
         from generate_series($1::bigint, $2::bigint) n, jobs.queue q`,
      ),
    /** So many finished ones, and a tenth of that dead, and as many waiting, of many kinds; one in a hundred has failed. */
    everything: async (count) => {
      const seeds = seedsOf(sql, queue);
      await seeds.finished(count, MIXED);
      await seeds.dead(count / 10, MIXED, MIXED_ERROR);
      await sql.run(
        `insert into jobs.lane (queue_id, id, kind, priority)
         select q.id, n, 'bench-' || n, 0 from jobs.queue q, generate_series(1, ${KINDS} - 1) n`,
      );
      await sql.run(
        `insert into jobs.job (id, run_at, lane, queue_id, kind, failures, attempt, payload)
         select n, now(), l.id, l.queue_id, l.kind, failed.times, failed.times, ${MIXED}
         from generate_series($1::bigint, $2::bigint) n
         cross join lateral (select case when n % 100 = 0 then 3 else 0 end as times) failed
         join jobs.lane l on l.id = n % ${KINDS}`,
        [1, count / 10],
      );
      await sql.run(
        `insert into jobs.attempt_error (job_id, attempt, queue_id, generation, error)
         select j.id, failed.attempt, j.queue_id, 1, ${report("700")} from jobs.job j, generate_series(1, 3) failed (attempt) where j.failures > 0`,
      );
    },
    dead: async (count, payload = PAYLOAD, error = ERROR) =>
      await inChunks(
        count,
        `insert into jobs.dead (id, created_at, run_at, started_at, worker, attempt, queue_id, failures, crashes, lane, generation, kind, payload, reason, error)
         select n, now(), now(), now(), 0, 5, q.id, 5, 0, 0, 1, 'bench', ${payload}, 'attempts used up', ${error}
         from generate_series($1::bigint, $2::bigint) n, jobs.queue q`,
      ),
  };
}
