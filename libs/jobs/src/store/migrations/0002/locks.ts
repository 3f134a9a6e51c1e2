/**
 * All locks that the step needs and somebody may hold for long, at once: a request that waits makes everybody wait who
 * comes after it, so it is withdrawn before they give up, and made again when they have passed. The queues come last:
 * whoever claims or enqueues reads them.
 */
export const locks = (jobs: string): string => `
do $$ begin
  for round in 1..40 loop
    begin
      lock table ${jobs}.worker, ${jobs}.dead in access exclusive mode;
      lock table only ${jobs}.done in share row exclusive mode;
      lock table ${jobs}.queue in access exclusive mode;
      return;
    exception when lock_not_available then
      if round = 40 then
        raise;
      end if;
      perform pg_sleep(least(0.1 * round, 1));
    end;
  end loop;
end $$;
`;
