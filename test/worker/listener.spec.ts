import pg from "pg";
import { Listener, type ListenerOptions } from "../../libs/jobs/src/pg/listener.js";
import { databaseUrl } from "../support/harness.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { until } from "../support/until.js";

describe("Listener", () => {
  const url = databaseUrl();
  const channel = 'words "of" test';
  let proxy: TcpProxy;
  let speaker: pg.Client;
  let listener: Listener;
  let heard: string[];
  let lost: unknown[];
  let connects: number;

  beforeEach(async () => {
    proxy = await TcpProxy.start(url);
    speaker = new pg.Client(url);
    await speaker.connect();
    heard = [];
    lost = [];
    connects = 0;
  });
  afterEach(async () => {
    await listener.close();
    await speaker.end();
    await proxy.close();
  });

  function listen(options: Partial<ListenerOptions> = {}): void {
    listener = new Listener({
      config: { connectionString: proxy.url(url) },
      channel,
      onNotify: (word) => heard.push(word),
      onConnect: () => connects++,
      onLost: (error) => lost.push(error),
      probeEvery: 100,
      probePatience: 300,
      ...options,
    });
    listener.start();
  }
  const connected = async (times: number) =>
    await until(() => connects >= times && listener.connected, {
      what: `it has connected ${times} times`,
    });
  const says = async (word: string) => {
    await speaker.query("select pg_notify($1, $2)", [channel, word]);
    await until(() => heard.includes(word), { what: `it hears ${word}` });
  };
  /** Backends that listen on our channel. */
  const backends = async () =>
    (
      await speaker.query<{ pid: number }>(
        "select pid from pg_stat_activity where application_name = 'pg-jobs listen' and datname = current_database()",
      )
    ).rows.map(({ pid }) => pid);

  it("hears, through many probes, on one connection", async () => {
    listen({ probeEvery: 10, probePatience: 15_000 });
    await connected(1);
    const before = await until(async () => {
      const all = await backends();
      return all.length === 1 && all;
    });
    for (let i = 0; i < 20; i++) await says(`word ${i}`);
    expect(await backends()).toEqual(before);
    expect(lost).toEqual([]);
    // Its own words to itself are nobody else's.
    expect(heard.filter((word) => !word.startsWith("word"))).toEqual([]);
  });

  it("heals when its backend is terminated, and hears again", async () => {
    listen({ probeEvery: 60_000 });
    await connected(1);
    await says("before");
    expect(connects).toBe(1);
    for (const pid of await backends())
      await speaker.query("select pg_terminate_backend($1)", [pid]);
    await connected(2);
    await says("after");
    expect(lost).toHaveLength(1);
  });

  it("finds out by its probe that nothing comes through any more, and hears again", async () => {
    listen({ probePatience: 2_000 });
    await connected(1);
    await says("before");
    const before = connects;
    proxy.setMode("blackhole");
    // One probe interval and its patience; a socket alone would not say anything for minutes.
    await until(() => !listener.connected, { what: "it has noticed" });
    await speaker.query("select pg_notify($1, 'lost')", [channel]);
    proxy.setMode("pass");
    await connected(before + 1);
    await says("after");
    expect(await until(async () => (await backends()).length === 1)).toBe(true);
  });

  it("keeps trying while the server refuses, and stops trying when closed", async () => {
    proxy.setMode("reset");
    listen({ probeEvery: 60_000, probePatience: 15_000 });
    await until(() => lost.length >= 3, { what: "three tries" });
    expect(connects).toBe(0);
    proxy.setMode("pass");
    await connected(1);
    await says("at last");
    proxy.setMode("reset");
    await until(() => !listener.connected, { what: "it has noticed" });
    await listener.close();
    proxy.setMode("pass");
    expect(await until(async () => (await backends()).length === 0)).toBe(true);
    expect(connects).toBe(1);
  });

  it("is closed soon, though nobody answers", async () => {
    listen({ probeEvery: 60_000 });
    await connected(1);
    proxy.setMode("blackhole");
    const from = performance.now();
    await listener.close();
    expect(performance.now() - from).toBeLessThan(15_000);
  });

  it("is closed while it connects, and is not connected afterwards", async () => {
    listen();
    await listener.close();
    expect(await until(async () => (await backends()).length === 0)).toBe(true);
    expect(listener.connected).toBe(false);
    expect(connects).toBe(0);
  });
});
