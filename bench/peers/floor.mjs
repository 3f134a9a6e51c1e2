// No library: one table, set-based statements, finished jobs deleted. A yardstick, nothing that one would ship.
import pg from "pg";
import { coalesced } from "./coalesced.mjs";
import { InTurn } from "./in-turn.mjs";
import { Nudge } from "./nudge.mjs";
import { Sql } from "./sql.mjs";
import { StatementLoop } from "./statement-loop.mjs";

const BATCH = 1_000;

const SCHEMA = `
create schema floor;
create table floor.job (
  id bigint generated always as identity primary key,
  run_at timestamptz not null default now(),
  taken_at timestamptz,
  attempt integer not null default 0,
  error text,
  payload jsonb not null
);
create index on floor.job (run_at, id) where taken_at is null`;

const INSERT = {
  name: "insert",
  text: `insert into floor.job (payload) select value from jsonb_array_elements($1::jsonb)`,
};
const CLAIM = {
  name: "claim",
  text: `
with picked as materialized (
  select id from floor.job where taken_at is null and run_at <= now() order by run_at, id limit ${BATCH} for update skip locked
)
update floor.job set taken_at = now(), attempt = attempt + 1
where id = any(array(select id from picked)) returning id, payload`,
};
const COMPLETE = { name: "complete", text: "delete from floor.job where id = any($1::bigint[])" };
const FAIL = {
  name: "fail",
  text: `update floor.job j set taken_at = null, error = f.error from unnest($1::bigint[], $2::text[]) f(id, error) where j.id = f.id`,
};

export function open({ url }) {
  const sql = new Sql(url);
  const clients = [];
  const connect = async () => {
    const client = new pg.Client(url);
    await client.connect();
    clients.push(client);
    return client;
  };
  let producers;
  let nudge;
  let loop;
  let addOne;

  const insert = async (payloads) => {
    await producers.use(async (client) => {
      await client.query(INSERT, [JSON.stringify(payloads)]);
    });
    nudge.give();
  };

  return {
    install: async () => await sql.run(SCHEMA),
    produce: async () => {
      producers = new InTurn([await connect(), await connect()]);
      nudge = new Nudge(() => sql.run("notify floor"));
      addOne = coalesced(insert);
    },
    enqueue: async (payload) => await addOne(payload),
    enqueueMany: insert,
    enqueueWithin: async (client, payload) => {
      await client.query(INSERT, [JSON.stringify([payload])]);
      await client.query("notify floor");
    },

    work: async (handle) => {
      const [claims, settles] = [await connect(), await connect()];
      loop = new StatementLoop({
        handle,
        payloadOf: ({ payload }) => payload,
        claim: async () => (await claims.query(CLAIM)).rows,
        settle: async ({ succeeded, failed }) => {
          if (succeeded.length > 0) await settles.query(COMPLETE, [succeeded.map((job) => job.id)]);
          if (failed.length > 0)
            await settles.query(FAIL, [
              failed.map(({ job }) => job.id),
              failed.map(({ error }) => error.stack),
            ]);
          return failed.length > 0;
        },
      });
      claims.on("notification", () => loop.wake());
      await claims.query("listen floor");
      loop.start();
    },

    // from the newest on: those are settled last, and the dead ones of the others are left alone meanwhile
    left: async () => (await sql.run("select from floor.job order by id desc limit 1")).length > 0,
    tally: async () => ({
      ...(await sql.numbers("select count(*) as unfinished from floor.job")),
      succeeded: null,
      failed: null,
    }),
    close: async () => {
      await loop?.close();
      for (const client of clients) await client.end();
      await sql.close();
    },
  };
}
