import type { ParsedJobsOptions } from "./jobs.options.js";
import type { Events } from "./observe/events.js";
import type { Vitals } from "./observe/vitals.js";
import type { Database } from "./pg/database.js";
import type { Hints } from "./queue/hints.js";
import type { LocalWorkers } from "./queue/local-workers.js";
import type { Results } from "./queue/results.js";
import type { Store } from "./store/store.js";

/** @internal What `forRoot` has opened, for the workers of the app. */
export class JobsRoot {
  constructor(
    readonly options: ParsedJobsOptions,
    readonly database: Database,
    readonly store: Store,
    readonly events: Events,
    readonly hints: Hints,
    readonly local: LocalWorkers,
    readonly results: Results,
    readonly vitals: Vitals,
  ) {}
}
