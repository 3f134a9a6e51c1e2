import { type Row, type Runner, Statement, arrayOf } from "../../pg/statement.js";
import {
  type Claim,
  type ClaimRequest,
  NEVER,
  inOrder,
  laneValues,
  readClaim,
  untilValue,
} from "./claim.js";
import type { Writes } from "./noted.js";

export interface LimitedClaimRequest extends ClaimRequest {
  /** Jobs of this process that may be over: their slots are free if they are. */
  over: readonly string[];
  /** So many jobs are looked at, to find some whose key has room. */
  depth: number;
  /** What the last answer on this connection said; '0' on a new one. */
  since: string;
}

export interface LimitedClaims {
  claims: Claim[];
  /** Of them, those that were parked: where they stand in their lane says nothing of the others. */
  picked: ReadonlySet<string>;
  /** `'busy'`: another claim is under way; `'closed'`: this queue is not claimed from at the moment; neither wrote anything. */
  refused?: "busy" | "closed";
  /** Older slots than this are over; it holds as long as the connection does. */
  since: string;
  /** So many jobs were set aside, whose key has no room: there may be others behind them. */
  parked: number;
  /** So many came back from there, behind the place where claims are. */
  strays: number;
  /** A limit other than that of a key keeps jobs from starting. */
  blocked: boolean;
  /** In so many ms a rate lets another one start; undefined: no rate keeps one. */
  waitMs: number | undefined;
}

const claimWithin = new Statement(
  "claim_limited",
  (jobs) => `
-- queued -> running, or parked: within the limits of the queue
select c.id, c.lane, c.attempt, c.failures, c.crashes, c.attempts, c.timeout_ms, c.run_at, c.payload, c.headers, c.kind,
  c.rescued, c.picked, c.news
from ${jobs}.claim_limited($1::integer, $2::integer, $3::smallint[], $4::timestamptz[], $5::bigint[], $6::float8[],
  $7::integer[], $8::float8[], $9::integer, $10::float8, $11::integer, $12::timestamptz, $13::boolean, $14::bigint[],
  $15::integer, $16::bigint) c`,
);

interface News {
  busy?: boolean;
  closed?: boolean;
  since?: number;
  parked?: number;
  strays?: number;
  blocked?: boolean;
  wait?: number | null;
}

/** Takes due jobs of a queue that has limits, as many as they let start now. */
export async function claimLimited(
  runner: Runner,
  request: LimitedClaimRequest,
  { history = false, full = false }: Writes = {},
): Promise<LimitedClaims> {
  const { queueId, version, lanes, room, leaseMs, worker, takeOverUntil } = request;
  const rows = await runner.run(claimWithin, [
    queueId,
    version,
    ...laneValues(lanes),
    untilValue(lanes),
    room,
    leaseMs,
    worker,
    takeOverUntil,
    history && (full || takeOverUntil !== NEVER),
    arrayOf(request.over),
    request.depth,
    request.since,
  ]);
  const taken = rows.filter(([id]) => id !== null);
  const news = newsOf(rows);
  return {
    claims: inOrder(
      taken.map((row) => readClaim(row, queueId, worker)),
      lanes,
    ),
    picked: new Set(taken.filter((row) => row[12] === "t").map(([id]) => id!)),
    ...(news.busy
      ? { refused: "busy" as const }
      : news.closed
        ? { refused: "closed" as const }
        : {}),
    since: String(news.since ?? request.since),
    parked: news.parked ?? 0,
    strays: news.strays ?? 0,
    blocked: news.blocked ?? false,
    waitMs: news.wait ?? undefined,
  };
}

function newsOf(rows: readonly Row[]): News {
  const news: News = {};
  for (const [id, ...rest] of rows)
    if (id === null) Object.assign(news, JSON.parse(rest.at(-1)!) as News);
  return news;
}
