/**
 * What operators did, and who asked the same twice.
 *
 * Storage: `audit` is inserted into, and each row is changed once, so a tenth of each page is left. `request` is deleted from
 * after a day. Both grow as people click: the defaults serve.
 */
export const audit = (jobs: string): string => `
create table ${jobs}.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  operator text not null,
  role text not null,
  action text collate "C" not null,
  target text not null,
  why text,
  details jsonb not null default '{}',
  -- null: it was begun, and nobody has said how it ended
  outcome text,
  ended_at timestamptz
) with (fillfactor = 90);

-- an answer that is given again to who repeats a request
create table ${jobs}.request (
  operator text not null,
  key text not null,
  -- a digest of what was asked
  asked text not null,
  began_at timestamptz not null default now(),
  -- null: it is under way
  status smallint,
  body jsonb,
  primary key (operator, key)
);
create index request_age on ${jobs}.request (began_at);
`;
