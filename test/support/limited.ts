import type { LimitRule } from "../../libs/jobs/src/job/limit.js";
import type { Session } from "../../libs/jobs/src/pg/session.js";
import { setRules } from "../../libs/jobs/src/store/limits/rules.js";
import { sweep } from "../../libs/jobs/src/store/limits/sweep.js";
import type { Claim } from "../../libs/jobs/src/store/transitions/claim.js";
import {
  type LimitedClaimRequest,
  type LimitedClaims,
  claimLimited,
} from "../../libs/jobs/src/store/transitions/claim-limited.js";
import { succeed } from "../../libs/jobs/src/store/transitions/succeed.js";
import { Hands, from } from "./hands.js";
import type { Bench } from "./harness.js";

export const rule = (over: Partial<LimitRule>): LimitRule => ({
  keyPath: "",
  max: null,
  rate: null,
  rateMs: null,
  ...over,
});

export const idsOf = ({ claims }: LimitedClaims): string[] => claims.map(({ id }) => id);

/** Does by hand what a worker does with a queue that has limits. */
export class Limited {
  private constructor(
    readonly hands: Hands,
    readonly session: Session,
    readonly worker: number,
  ) {}

  static async open(bench: Bench): Promise<Limited> {
    const hands = await Hands.open(bench);
    return new Limited(hands, bench.session("claim"), await hands.worker());
  }

  /** Says it, and opens the gate though jobs are there. */
  async limit(rules: Partial<LimitRule>[], kind = ""): Promise<void> {
    const { bench, queueId } = this.hands;
    const front = bench.session();
    await front.transaction((run) => setRules({ run }, queueId, { kind, rules: rules.map(rule) }));
    await bench.sql("update jobs.limit_gate set opens_at = now() - interval '1 s'");
    await sweep(front, queueId);
  }

  async take(
    over: Partial<LimitedClaimRequest> & { on?: Pick<Session, "run"> } = {},
  ): Promise<LimitedClaims> {
    const { on = this.session, ...more } = over;
    return await claimLimited(on, {
      queueId: this.hands.queueId,
      version: await this.hands.version(),
      lanes: [from(this.hands.lane)],
      room: 100,
      leaseMs: 60_000,
      worker: this.worker,
      takeOverUntil: "infinity",
      over: [],
      depth: 100,
      since: "0",
      ...more,
    });
  }

  async done(claims: readonly Claim[]): ReturnType<typeof succeed> {
    return await succeed(
      this.hands.session,
      this.hands.queueId,
      this.worker,
      claims.map(({ id, attempt }) => ({ id, attempt, result: null })),
    );
  }

  /** Jobs of one tenant, and of one user of it. */
  async tenant(count: number, tenant: unknown, user: unknown = 7): Promise<string[]> {
    return await this.hands.addMany(count, {
      payload: JSON.stringify({ tenant, user: { id: user } }),
    });
  }
}
