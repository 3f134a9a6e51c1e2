import { claimLimited } from "../0007/claim-limited.js";

/**
 * The claim of `0007/claim-limited.ts`, which takes away what it passes over in a line when it takes long to get through it: a
 * sweep does so for keys with room only, and of one that is always busy thousands of cancelled jobs were walked with each claim.
 */
export const withoutGone = (jobs: string): string => {
  const place = `          -- the first that is there, locked or not; it is looked for from the beginning in a fiftieth of the time`;
  const text = claimLimited(jobs);
  if (!text.includes(place)) throw new Error("0007/claim-limited.ts was changed");
  return text.replace(
    place,
    `          -- cancelled, deleted, or replaced while they were parked
          delete from ${jobs}.parked p where p.ctid = any(array(
            select first.at from (
              select p.ctid as at, p.job_id from ${jobs}.parked p
              where p.queue_id = p_queue and p.limit_id = f_limits[i] and p.key = f_keys[i]
              order by p.priority desc, p.run_at, p.job_id limit 5000
            ) first left join lateral (
              select j.lane from ${jobs}.job j where j.id = first.job_id and j.queue_id = p_queue offset 0
            ) j on true
            where j.lane is null or j.lane not between 10000 and 19999));
${place}`,
  );
};
