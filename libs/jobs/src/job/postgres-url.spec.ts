import { postgresUrlProblem } from "./postgres-url.js";

describe("postgresUrlProblem", () => {
  it.each([
    "postgres://user:secret@localhost/db",
    "postgresql://user:s%23cret%2F%3F%40@host:5432/db?sslmode=require",
    "postgres://u:p@[::1]:5432/db",
    "postgres://u:p@ss@h/db",
    "postgres://u:100%zz@h/db",
    "postgres://h",
    "postgres://u:p@/db?host=/var/run/postgresql",
    "postgres://u@%2Fvar%2Frun/db",
    "postgres://h:5432/db?user=me@tenant&application_name=a@b",
    "socket:/var/run/postgresql?db=jobs",
  ])("takes %s", (url) => expect(postgresUrlProblem(url)).toBeUndefined());

  it.each<[string, RegExp]>([
    ["", /begins with postgres:\/\/.*found ''/],
    ["mysql://u:secret@h/db", /begins with postgres/],
    ["postgres://u:secret@h /db", /no spaces/],
    ["postgres://u:secret@h:99999/db", /a port of 1\.\.65535/],
    ["postgres://u:secret@h:0/db", /a port of 1\.\.65535/],
    ["postgres://u:secret@h:port/db", /a port of 1\.\.65535/],
    ["postgres://u:secret@h/db?port=99999", /a port of 1\.\.65535/],
    ["postgres://u:sec#ret@h/db", /no raw #.*# as %23/],
    ["postgres://u:12#secret@h/db", /no raw #/],
    ["postgres://u:12/secret@h/db", /behind the last @, found a \/ or \?.*\/ as %2F/],
    ["postgres://u:12?secret@h/db", /behind the last @.*\? as %3F/],
    ["postgres://u:sec/ret@h/db", /behind the last @/],
    ["postgres://u:secret@a:1,b:2/db", /expected one host, found a list/],
    ["postgres://u:secret%e4@h/db", /a % that encodes no UTF-8/],
    ["postgres://u:secret@[::1/db", /port|parsed/],
  ])("refuses %s and does not show it", (url, problem) => {
    const found = postgresUrlProblem(url);
    expect(found).toMatch(problem);
    expect(found).not.toMatch(/sec|ret@/);
  });
});
