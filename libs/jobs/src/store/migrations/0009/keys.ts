import { enqueueOne } from "../0002/keys.js";
import { REPLACING_LANE } from "../0007-lines.js";

/**
 * A window is looked for by its key, whatever the statistics: with a bare comparison the planner may take the index of times
 * instead, and walk all windows that are open (1M of them: 295 ms a call after a vacuum that met one).
 */
export const keys = (jobs: string): string =>
  enqueueOne(jobs, {
    verb: "create or replace",
    replacing: REPLACING_LANE,
    lasts: "(d.expires_at > moment) is true",
  });
