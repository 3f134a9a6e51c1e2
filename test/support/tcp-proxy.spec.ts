import pg from "pg";
import { TcpProxy } from "./tcp-proxy.js";
import { until } from "./until.js";

describe("TcpProxy", () => {
  const direct = process.env.DATABASE_URL!;
  let proxy: TcpProxy;
  let client: pg.Client;
  let failures: Error[];

  const newClient = (patience = 10_000) =>
    new pg.Client({ connectionString: proxy.url(direct), connectionTimeoutMillis: patience });

  beforeEach(async () => {
    proxy = await TcpProxy.start(direct);
    failures = [];
    client = newClient();
    client.on("error", (error) => failures.push(error));
    await client.connect();
  });

  afterEach(async () => {
    await proxy.close();
    await client.end().catch(() => {});
  });

  it("passes queries and large results through", async () => {
    const { rows } = await client.query("SELECT repeat('x', 5000000) AS text");
    expect(rows[0].text).toHaveLength(5_000_000);
  });

  it("holds everything up as a black hole, and delivers it afterwards", async () => {
    proxy.setMode("blackhole");
    let answered = false;
    const answer = client.query("SELECT 1 AS one").then((result) => {
      answered = true;
      return result;
    });
    await expect(newClient(300).connect()).rejects.toThrow(/timeout/);
    expect(answered).toBe(false);
    proxy.setMode("pass");
    await expect(answer).resolves.toMatchObject({ rows: [{ one: 1 }] });
  });

  it("resets open connections and refuses new ones", async () => {
    proxy.setMode("reset");
    await until(() => failures.length, { what: "the open client sees the reset" });
    await expect(newClient().connect()).rejects.toThrow(/ECONNRESET|terminated/);
    proxy.setMode("pass");
    const again = newClient();
    await again.connect();
    await again.end();
  });

  it("can reset what is open and let new connections in", async () => {
    proxy.resetAll();
    await until(() => failures.length, { what: "the open client sees the reset" });
    const again = newClient();
    await again.connect();
    await expect(again.query("SELECT 1 AS one")).resolves.toMatchObject({ rowCount: 1 });
    await again.end();
  });

  it("ends the server's side when the client goes", async () => {
    const { rows } = await client.query("SELECT pg_backend_pid() AS pid");
    await client.end();
    const observer = new pg.Client(direct);
    await observer.connect();
    try {
      const sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1";
      const gone = async () => (await observer.query(sql, [rows[0].pid])).rowCount === 0;
      await until(gone, { what: "the server's process is gone" });
    } finally {
      await observer.end();
    }
  });
});
