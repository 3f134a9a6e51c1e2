import type { Bench } from "./harness.js";
import type { Ledger, LedgerLine } from "./worker-process.js";

// Proves the invariants over a run, from three sources: the tables as they are, a log of every transition that
// triggers write, and the ledger that handlers write outside of the database.

interface Side {
  attempt: number;
  worker: number | null;
  lease: string | null;
  failures: number;
  crashes: number;
  lane: number;
  generation: number;
  attempts: number | null;
  state?: number;
}

interface Change {
  xact: string;
  at: string;
  place: "job" | "done" | "dead";
  op: "INSERT" | "UPDATE" | "DELETE";
  id: string;
  before: Side | null;
  after: Side | null;
}

/** What a transaction did to a job. */
type Step =
  | "enqueue"
  | "claim"
  | "rescue"
  | "renew"
  | "retry"
  | "put back"
  | "finish"
  | "bury"
  | "cancel"
  | "requeue";

export interface Transition {
  step: Step;
  id: string;
  before: Side | null;
  after: Side | null;
}

/** The limit of a job that says nothing. */
const ATTEMPTS = 5;
const MAX_CRASHES = 3;

/** Writes down what happens to the rows of a bench, in a schema of its own. */
export class TransitionLog {
  readonly #schema: string;

  private constructor(private readonly bench: Bench) {
    this.#schema = `${bench.schema}_log`;
  }

  static async install(bench: Bench): Promise<TransitionLog> {
    const log = new TransitionLog(bench);
    const side = (row: string, more = "") => `jsonb_build_object('attempt', ${row}.attempt,
      'worker', ${row}.worker, 'failures', ${row}.failures, 'lane', ${row}.lane,
      'generation', ${row}.generation, 'attempts', ${row}.attempts${more})`;
    const ofJob = (row: string) =>
      side(row, `, 'lease', ${row}.lease_until, 'crashes', ${row}.crashes`);
    const note = (name: string, columns: (row: string) => string) => `
      create function ${log.#schema}.${name}() returns trigger language plpgsql as $$
      begin
        insert into ${log.#schema}.change (place, op, id, before, after) values (
          tg_argv[0], tg_op, coalesce(new.queue_id, old.queue_id) || '-' || coalesce(new.id, old.id),
          case when tg_op <> 'INSERT' then ${columns("old")} end,
          case when tg_op <> 'DELETE' then ${columns("new")} end);
        return null;
      end $$;`;
    await bench.sql(`
      create schema ${log.#schema};
      create table ${log.#schema}.change (
        seq bigint generated always as identity, xact text not null default pg_current_xact_id()::text,
        at timestamptz not null default clock_timestamp(), place text not null, op text not null,
        id text not null, before jsonb, after jsonb);
      ${note("note_job", ofJob)}
      ${note("note_done", (row) => side(row, `, 'state', ${row}.state`))}
      ${note("note_dead", (row) => side(row, `, 'crashes', ${row}.crashes`))}
      create trigger test_log after insert or update or delete on jobs.job
        for each row execute function ${log.#schema}.note_job('job');
      create trigger test_log after insert or update or delete on jobs.done
        for each row execute function ${log.#schema}.note_done('done');
      create trigger test_log after insert or update or delete on jobs.dead
        for each row execute function ${log.#schema}.note_dead('dead');`);
    return log;
  }

  /** What happened to one job, or to all of them, in order; what is not a legal transition is named. */
  async read(id?: string): Promise<{ transitions: Transition[]; illegal: string[] }> {
    const rows = await this.bench.sql<Change & { seq: string }>(
      `select xact, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00' as at,
         place, op, id, before, after
       from ${this.#schema}.change where $1::text is null or id = $1 order by seq`,
      [id ?? null],
    );
    const groups = new Map<string, Change[]>();
    for (const row of rows) {
      const name = `${row.xact} ${row.id}`;
      const group = groups.get(name);
      if (group) group.push(row);
      else groups.set(name, [row]);
    }
    const transitions: Transition[] = [];
    const illegal: string[] = [];
    for (const group of groups.values()) {
      const transition = legal(group);
      if (transition) transitions.push(transition);
      else illegal.push(`not a legal transition: ${JSON.stringify(group)}`);
    }
    return { transitions, illegal };
  }

  async remove(): Promise<void> {
    await this.bench.sql(`drop schema if exists ${this.#schema} cascade`);
  }
}

/** The transition that one transaction made of one job; undefined when there is none like it. */
function legal(changes: readonly Change[]): Transition | undefined {
  const find = (place: Change["place"], op: Change["op"]) =>
    changes.find((one) => one.place === place && one.op === op);
  const { id } = changes[0]!;
  const inserted = find("job", "INSERT");
  const updated = find("job", "UPDATE");
  const deleted = find("job", "DELETE");
  const step = (name: Step, before: Side | null, after: Side | null) => ({
    step: name,
    id,
    before,
    after,
  });
  if (changes.length === 1 && inserted) {
    const { attempt, worker, lease, generation } = inserted.after!;
    const fresh = attempt === 0 && worker === null && lease === null && generation === 1;
    return fresh ? step("enqueue", null, inserted.after) : undefined;
  }
  if (changes.length === 1 && updated) {
    const name = stepOf(updated);
    return name && step(name, updated.before, updated.after);
  }
  if (changes.length !== 2) return undefined;
  const ended = find("done", "INSERT") ?? find("dead", "INSERT");
  if (deleted && ended) {
    const [was, is] = [deleted.before!, ended.after!];
    const run = was.attempt === is.attempt && was.generation === is.generation;
    if (is.state === 3) {
      const free = was.lease === null || Date.parse(was.lease) <= Date.parse(deleted.at);
      const by = is.worker === null ? free : is.worker === was.worker && was.lease !== null;
      return run && by ? step("cancel", was, is) : undefined;
    }
    const same = run && was.worker === is.worker && was.lease !== null;
    return same ? step(ended.place === "done" ? "finish" : "bury", was, is) : undefined;
  }
  const left = find("dead", "DELETE") ?? find("done", "DELETE");
  if (inserted && left) {
    const [was, is] = [left.before!, inserted.after!];
    const anew =
      is.attempt === was.attempt &&
      is.generation === was.generation + 1 &&
      is.failures === 0 &&
      is.crashes === 0 &&
      is.lease === null &&
      is.worker === null;
    return anew ? step("requeue", was, is) : undefined;
  }
  return undefined;
}

function stepOf({ before, after, at }: Change): Step | undefined {
  const [was, is] = [before!, after!];
  if (was.generation !== is.generation) return undefined;
  if (is.lease !== null && is.attempt === was.attempt + 1) {
    const taken = is.worker !== null && is.failures === was.failures && is.lane === was.lane;
    if (!taken) return undefined;
    if (was.lease === null) return is.crashes === was.crashes ? "claim" : undefined;
    // Taken over only when it had expired.
    const expired = Date.parse(was.lease) <= Date.parse(at);
    return expired && is.crashes === was.crashes + 1 ? "rescue" : undefined;
  }
  if (is.attempt !== was.attempt || was.lease === null) return undefined;
  if (is.lease !== null) {
    const untouched =
      is.worker === was.worker &&
      is.failures === was.failures &&
      is.crashes === was.crashes &&
      is.lane === was.lane;
    return untouched ? "renew" : undefined;
  }
  if (is.worker !== null) return undefined;
  if (is.failures === was.failures + 1) return is.crashes === 0 ? "retry" : undefined;
  return is.failures === was.failures && (is.crashes === 0 || is.crashes === was.crashes)
    ? "put back"
    : undefined;
}

export interface Evidence {
  log?: TransitionLog;
  ledger?: Ledger;
  /** The ids of jobs whose enqueue was acknowledged. */
  acknowledged?: readonly string[];
  /** The server was crashed: claims that nobody waited for may be missing from the log. */
  serverCrashed?: boolean;
}

/** Everything that is wrong; empty when all invariants hold. Call it when nothing runs any more. */
export async function violations(bench: Bench, evidence: Evidence): Promise<string[]> {
  const found: string[] = [];
  found.push(...(await misplaced(bench, evidence.acknowledged ?? [])));
  found.push(...(await miscounted(bench)));
  const starts = evidence.ledger?.starts() ?? [];
  found.push(...twice(starts.map(fence), "was started twice under one fence"));
  if (evidence.log) {
    const { transitions, illegal } = await evidence.log.read();
    found.push(...illegal);
    const claims = transitions.filter(({ step }) => step === "claim" || step === "rescue");
    found.push(
      ...twice(
        claims.map(({ id, after }) => fence({ id, ...after! })),
        "was claimed twice under one fence",
      ),
      ...rising(claims),
      ...endedTwice(transitions),
      ...tooManyStarts(transitions, starts, evidence.serverCrashed ?? false),
    );
  }
  // A thousand lines would say no more.
  return found.slice(0, 20);
}

/** A job stands in one place, and none that was acknowledged is missing. */
async function misplaced(bench: Bench, acknowledged: readonly string[]): Promise<string[]> {
  const double = await bench.sql<{ id: string }>(
    "select id from jobs.job_status group by id having count(*) > 1",
  );
  const missing = await bench.sql<{ id: string }>(
    `select id from unnest($1::text[]) as wanted (id)
     except select id from jobs.job_status`,
    [acknowledged],
  );
  return [
    ...double.map(({ id }) => `${id} stands in two places`),
    ...missing.map(({ id }) => `${id} was acknowledged and is lost`),
  ];
}

/** The counters say what count(*) says. */
async function miscounted(bench: Bench): Promise<string[]> {
  const rows = await bench.sql<{ kind: string; state: string; counted: string; real: string }>(`
    with counted as (
      select queue_id, lane, state, sum(n) as n
      from (select queue_id, lane, state, n from jobs.stat
            union all select queue_id, lane, state, n from jobs.stat_delta) both_of_them
      where state <= 4 -- what is pruned is in no table
      group by 1, 2, 3
    ), rows as (
      select queue_id, lane % 10000 as lane, 0 as state, count(*) as n from jobs.job group by 1, 2
      union all select queue_id, lane, state, count(*) from jobs.done group by 1, 2, 3
      union all select queue_id, lane, 4, count(*) from jobs.dead group by 1, 2
    )
    select lane::text as kind, state::text, coalesce(counted.n, 0) as counted, coalesce(rows.n, 0) as real
    from counted full join rows using (queue_id, lane, state)
    where coalesce(counted.n, 0) <> coalesce(rows.n, 0)`);
  return rows.map(
    ({ kind, state, counted, real }) =>
      `lane ${kind}, state ${state}: the counter says ${counted}, count(*) ${real}`,
  );
}

const fence = ({ id, attempt, worker }: { id: string; attempt: number; worker: number | null }) =>
  `${id} attempt ${attempt} worker ${worker}`;

function twice(names: readonly string[], what: string): string[] {
  const seen = new Set<string>();
  return names.flatMap((name) => (seen.has(name) ? [`${name} ${what}`] : (seen.add(name), [])));
}

/** Attempts rise by one, over all generations. */
function rising(claims: readonly Transition[]): string[] {
  const last = new Map<string, number>();
  return claims.flatMap(({ id, after }) => {
    const wrong = after!.attempt !== (last.get(id) ?? 0) + 1;
    last.set(id, after!.attempt);
    return wrong ? [`${id}: attempt ${after!.attempt} does not follow the one before`] : [];
  });
}

const generation = ({ id, before, after }: Transition) =>
  `${id} generation ${(after ?? before)!.generation}`;

function endedTwice(transitions: readonly Transition[]): string[] {
  const ends = transitions.filter(({ step }) => ["finish", "bury", "cancel"].includes(step));
  return twice(ends.map(generation), "ended twice");
}

/** Starts ≤ attempts + crashes + what was put back, per generation; and never one too many deaths. */
function tooManyStarts(
  transitions: readonly Transition[],
  starts: readonly LedgerLine[],
  serverCrashed: boolean,
): string[] {
  const bodies = new Map<string, number>();
  for (const { id, attempt } of starts)
    bodies.set(`${id} ${attempt}`, (bodies.get(`${id} ${attempt}`) ?? 0) + 1);
  const sums = new Map<string, { allowed: number; starts: number }>();
  const found: string[] = [];
  for (const transition of transitions) {
    const { step, id, after } = transition;
    const name = generation(transition);
    const limit = after!.attempts ?? ATTEMPTS;
    let sum = sums.get(name);
    if (!sum) sums.set(name, (sum = { allowed: limit, starts: 0 }));
    if (step === "put back" || step === "rescue") sum.allowed++;
    if (step !== "claim" && step !== "rescue") continue;
    const ran = bodies.get(`${id} ${after!.attempt}`) ?? 0;
    sum.starts += ran;
    if (ran > 1 && !serverCrashed) found.push(`${id} ran twice in attempt ${after!.attempt}`);
    if (ran > 0 && step === "rescue" && after!.crashes >= Math.min(MAX_CRASHES, limit))
      found.push(`${id} was started after its ${after!.crashes}. crash`);
  }
  for (const [name, { allowed, starts: ran }] of sums)
    if (ran > allowed) found.push(`${name}: ${ran} starts, at most ${allowed} are allowed`);
  return found;
}
