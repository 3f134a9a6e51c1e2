import { Injectable, type Type } from "@nestjs/common";
import {
  type Definition,
  type HandlerOptions,
  type JobContext,
  JobHandler,
  type PayloadOf,
} from "nestjs-pg-jobs";
import { type Bench } from "./harness.js";
import { until } from "./until.js";

/** A provider whose one method handles this kind. */
export function handler<D extends Definition | string>(
  definition: D,
  body: (payload: PayloadOf<D>, job: JobContext) => unknown,
  options?: HandlerOptions,
): Type<unknown> {
  @Injectable()
  class Handlers {
    @JobHandler(definition, options)
    run(payload: PayloadOf<D>, job: JobContext): unknown {
      return body(payload, job);
    }
  }
  return Handlers;
}

/** Holds bodies up until it is opened. */
export class Gate {
  open: () => void = () => {};
  readonly opened = new Promise<void>((resolve) => (this.open = resolve));
}

/** Counts the bodies that run at once. */
export class Gauge {
  now = 0;
  most = 0;

  async during<T>(work: () => T | Promise<T>): Promise<T> {
    this.most = Math.max(this.most, ++this.now);
    try {
      return await work();
    } finally {
      this.now--;
    }
  }
}

/** A row of the view, as people see it. */
export interface StatusRow {
  id: string;
  kind: string;
  state: string;
  attempt: number;
  failures: number;
  last_error: string | null;
  result: unknown;
  payload: unknown;
  /** How far off its time is, in ms; by the database's clock. */
  due_in: number;
}

/** The job as the view shows it. */
export async function row(bench: Bench, id: string): Promise<StatusRow> {
  const [found] = await bench.sql<StatusRow>(
    `select id, kind, state, attempt, failures, last_error, result, payload,
       (extract(epoch from run_at - now()) * 1000)::float8 as due_in
     from jobs.job_status where id = $1`,
    [id],
  );
  if (!found) throw new Error(`no job ${id}`);
  return found;
}

/** Waits for a state, and for as many attempts as are asked for. */
export async function reached(
  bench: Bench,
  id: string,
  state: string,
  { attempt = 1, timeout = 20_000 } = {},
): Promise<StatusRow> {
  return await until(
    async () => {
      const found = await row(bench, id);
      return found.state === state && found.attempt >= attempt && found;
    },
    { what: `job ${id} is ${state} after attempt ${attempt}`, timeout },
  );
}

/** So many empty payloads. */
export const payloads = (count: number): object[] => Array.from({ length: count }, () => ({}));
