/** How a deed ended is said once: grants let an operator's role say it, and nobody say something else later. */
export const audit = (jobs: string): string => `
create function ${jobs}.ended_before() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'audit: expected an entry that has not ended, found % with the outcome "%"', old.id, old.outcome
    using errcode = 'integrity_constraint_violation';
end $$;
create trigger ended_before before update on ${jobs}.audit
  for each row when (old.outcome is not null) execute function ${jobs}.ended_before();
`;
