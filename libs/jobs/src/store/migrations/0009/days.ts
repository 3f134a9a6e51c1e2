import { ensurePartitions } from "../0002/retention.js";

/** Whoever may use the schema may have days made, with the rights of its owner: of a month, and not without end. */
export const days = (jobs: string): string =>
  ensurePartitions(
    jobs,
    `
  if days is null or days not between 0 and 31 then
    raise exception 'days: expected 0 to 31, found %', coalesce(days::text, 'null') using errcode = 'invalid_parameter_value';
  end if;`,
  );
