import { Database } from "../../libs/jobs/src/pg/database.js";
import { monotonic } from "../../libs/jobs/src/worker/held.js";
import { Lease, type LostClaim, plain } from "../../libs/jobs/src/worker/lease.js";
import { Bench } from "../support/harness.js";
import { ClaimingHand } from "../support/claims.js";
import { payloads } from "../support/handlers.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

const LEASE = 1_000;

describe("Lease: renewed by a thread of its own", () => {
  let bench: Bench;
  let hand: ClaimingHand;
  let proxy: TcpProxy;
  let lease: Lease | undefined;
  let lost: LostClaim[];
  let trouble: string[];

  beforeEach(async () => {
    bench = await Bench.open();
    proxy = await TcpProxy.start(bench.url);
    hand = new ClaimingHand(bench);
    lost = [];
    trouble = [];
  });
  afterEach(async () => {
    await lease?.stop();
    await hand.close();
    await proxy.close();
    await bench.close();
  });

  function open(config = {}): Lease {
    const database = new Database(
      { connectionString: proxy.url(bench.url), ...config },
      bench.schema,
      1,
    );
    return (lease = new Lease(
      database,
      LEASE,
      10,
      (one) => lost.push(one),
      ({ message }) => trouble.push(message),
    ));
  }
  async function claims(count: number) {
    await (await bench.producer()).enqueueMany("job", payloads(count));
    return await hand.claim();
  }
  /** When the lease of a job ends, in ms of the database's clock. */
  const ends = async (id: string) => {
    const [row] = await bench.sql<{ at: number }>(
      "select extract(epoch from lease_until)::float8 * 1000 as at from jobs.job where id = $1",
      [id],
    );
    return row!.at;
  };
  /** What the thread writes is from now on a second; the hand's claim was for a minute. */
  const renewed = async (id: string, before: number) =>
    await until(async () => (await ends(id)) !== before && (await ends(id)), {
      what: `${id} is renewed`,
    });

  it("renews what waits and what runs, again and again", async () => {
    const { held } = open();
    const [waiting, running] = await claims(2);
    const before = await Promise.all([ends(waiting!.id), ends(running!.id)]);
    const since = monotonic() - LEASE;
    const slots = [held.hold(waiting!, since), held.hold(running!, since)];
    held.start(slots[1]!, monotonic() + 60_000);
    const first = await renewed(waiting!.id, before[0]!);
    await renewed(waiting!.id, first);
    await renewed(running!.id, before[1]!);
    expect(held.renewedAt(slots[0]!)).toBeGreaterThan(since);
    // Each of them, and one of them twice; told a moment after it is written.
    await until(() => held.renewals >= 3, { what: "it counts them" });
    expect(lost).toEqual([]);
  });

  it("in read committed, whatever the database has for its default", async () => {
    const change = async (how: string) =>
      await bench.sql(
        `do $$ begin execute format('alter database %I ${how}', current_database()); end $$`,
      );
    await bench.sql("create table jobs.level (level text)");
    await bench.sql(`create function jobs.note_level() returns trigger language plpgsql as $$
      begin
        insert into jobs.level values (current_setting('transaction_isolation'));
        return new;
      end $$`);
    const [one] = await claims(1);
    await bench.sql(`create trigger note_level before update of lease_until on jobs.job
      for each row execute function jobs.note_level()`);
    const before = await ends(one!.id);
    await change("set default_transaction_isolation = ''serializable''");
    try {
      // Past a pooler, which has connections from before.
      const { held } = open({ connectionString: bench.direct });
      held.hold(one!, monotonic() - LEASE);
      await renewed(one!.id, await renewed(one!.id, before));
    } finally {
      await change("reset default_transaction_isolation");
    }
    expect(await bench.sql("select distinct level from jobs.level")).toEqual([
      { level: "read committed" },
    ]);
  });

  it("no longer than it may run, and nothing that was released", async () => {
    const { held } = open();
    const [over, gone, witness] = await claims(3);
    const before = await Promise.all([ends(over!.id), ends(gone!.id), ends(witness!.id)]);
    const since = monotonic() - LEASE;
    held.start(held.hold(over!, since), monotonic() - 1);
    held.release(held.hold(gone!, since));
    held.hold(witness!, since);
    await renewed(witness!.id, await renewed(witness!.id, before[2]!));
    expect(await ends(over!.id)).toBe(before[0]);
    expect(await ends(gone!.id)).toBe(before[1]);
    expect(lost).toEqual([]);
  });

  it("while the main thread is blocked for longer than the lease", async () => {
    // Not through the proxy, which is in this thread.
    const { held } = open({ connectionString: bench.url });
    const [one] = await claims(1);
    const before = await ends(one!.id);
    const slot = held.hold(one!, monotonic() - LEASE);
    const first = await renewed(one!.id, before);
    // Until the thread has renewed it when the main one had been blocked for longer than the lease.
    const [from, end] = [monotonic() + 1.5 * LEASE, performance.now() + 20_000];
    while (held.renewedAt(slot) < from && performance.now() < end);
    expect(held.renewedAt(slot)).toBeGreaterThanOrEqual(from);
    expect(await ends(one!.id)).toBeGreaterThan(first + LEASE);
  });

  it("tells of a claim that is in other hands, and of no other", async () => {
    const { held } = open();
    const [mine, theirs] = await claims(2);
    const before = await ends(mine!.id);
    await bench.sql("update jobs.job set attempt = attempt + 1 where id = $1", [theirs!.id]);
    const since = monotonic() - LEASE;
    held.hold(mine!, since);
    const slot = held.hold(theirs!, since);
    await until(() => lost.length > 0, { what: "it is told" });
    expect(lost[0]).toEqual({ slot, id: theirs!.id, attempt: 1, worker: theirs!.worker });
    await renewed(mine!.id, before);
    expect(lost.every(({ id }) => id === theirs!.id)).toBe(true);
  });

  it("a row that somebody has locked is not lost", async () => {
    const { held } = open();
    const [one] = await claims(1);
    const before = await ends(one!.id);
    const client = await bench.client();
    await client.query("begin");
    await client.query(`select 1 from ${bench.schema}.job for update`);
    held.hold(one!, monotonic() - LEASE);
    await until(
      async () =>
        (
          await bench.sql(
            "select 1 from pg_stat_activity where datname = current_database() and application_name = 'pg-jobs renew' and query like '%lease_until is not null%' and query not like '%update%'",
          )
        ).length === 1,
      { what: "it has asked whether the row is still ours" },
    );
    await client.query("commit");
    client.release();
    await renewed(one!.id, before);
    expect(lost).toEqual([]);
  });

  it("goes on after its connection was lost, in late hours too: the fence decides", async () => {
    const { held } = open();
    const [one] = await claims(1);
    held.hold(one!, monotonic() - LEASE);
    const first = await renewed(one!.id, await ends(one!.id));
    proxy.setMode("reset");
    await until(() => trouble.length > 0, { what: "it has noticed" });
    await bench.age(`1-${one!.id}`, "1 hour");
    proxy.setMode("pass");
    await until(async () => (await ends(one!.id)) > first, { what: "it is renewed" });
    expect(lost).toEqual([]);
  });

  it("asks for the password as often as it connects, and survives a failure to get one", async () => {
    let asked = 0;
    const { password, username, pathname } = new URL(bench.url);
    const { held } = open({
      connectionString: undefined,
      host: "127.0.0.1",
      port: proxy.port,
      user: username,
      database: pathname.slice(1),
      password: async () => {
        if (++asked === 1) throw new Error("the vault is closed");
        return decodeURIComponent(password);
      },
    });
    const [one] = await claims(1);
    const before = await ends(one!.id);
    held.hold(one!, monotonic() - LEASE);
    await renewed(one!.id, before);
    // Once more than it failed: it has connected once since the last failure.
    expect(asked).toBe(trouble.length + 1);
    expect(trouble.join()).toContain("the vault is closed");
    expect(trouble.join()).not.toContain(password);
  });

  it("stops, though nobody answers, and twice", async () => {
    const { held } = open();
    const [one] = await claims(1);
    const before = await ends(one!.id);
    held.hold(one!, monotonic() - LEASE);
    await renewed(one!.id, before);
    proxy.setMode("blackhole");
    const from = performance.now();
    await Promise.all([lease!.stop(), lease!.stop()]);
    expect(performance.now() - from).toBeLessThan(15_000);
  });
});

it("takes to the thread what pg hides from enumeration", () => {
  const ssl = { ca: "ca" };
  Object.defineProperty(ssl, "key", { value: "secret", enumerable: false });
  expect(plain({ host: "h", ssl, stream: () => null })).toEqual({
    host: "h",
    ssl: { ca: "ca", key: "secret" },
  });
});
