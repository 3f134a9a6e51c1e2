export class Ledger {
  constructor(options: { jobs: number; timed?: boolean });
  /** Undefined for a job that is not of this run. */
  ran(n: number): number | undefined;
  report(jobs: number): { runs: Uint8Array; strays: number };
}
