import { fromDataSource, fromPool, fromUrl } from "../../libs/jobs/src/pg/connection.js";
import { Database } from "../../libs/jobs/src/pg/database.js";
import { Statement } from "../../libs/jobs/src/pg/statement.js";
import { databaseUrl } from "../support/harness.js";

const settings = new Statement(
  null,
  () =>
    `select current_setting('application_name'), current_setting('timezone'), current_setting('statement_timeout'),
       current_setting('synchronous_commit'), current_setting('work_mem')`,
);

describe("the settings of our connections", () => {
  const url = `${databaseUrl()}?application_name=theirs&statement_timeout=77&binary=true&options=${encodeURIComponent("-c work_mem=5MB -c timezone=Asia/Tokyo")}`;

  it.each([
    ["a URL", fromUrl(url)],
    ["a pool", fromPool({ options: { connectionString: url } })],
    ["a DataSource", fromDataSource({ options: { type: "postgres", url } })!],
  ])("are not lost to those in the connection string of %s", async (_of, config) => {
    const database = new Database(config, "jobs", 1);
    try {
      const [row] = await database.open("claim").run(settings);
      expect(row).toEqual(["pg-jobs claim", "UTC", "2s", "off", "5MB"]);
    } finally {
      await database.close();
    }
  });

  it("a DataSource with replicas: the one that is written to", () => {
    const master = { host: "writer", port: 1, username: "u", password: "p", database: "d" };
    const slaves = [{ ...master, host: "reader" }];
    expect(
      fromDataSource({ options: { type: "postgres", ssl: true, replication: { master, slaves } } }),
    ).toEqual({ host: "writer", port: 1, user: "u", password: "p", database: "d", ssl: true });
  });
});
