import { Injectable, type MessageEvent, type OnModuleDestroy, Optional } from "@nestjs/common";
import { JobInspector, type JobSummary } from "nestjs-pg-jobs";
import { Observable } from "rxjs";
import { problemOf } from "../problem.filter.js";
import { ProblemException } from "../problem.js";
import { Snapshot, type Stats } from "../stats/snapshot.js";
import { Viewer, deathOf } from "./viewer.js";

// What is new, told to all who look: however many they are, one look every two seconds, and none when nobody looks.

const EVERY_MS = 2_000;
/** A job is dead when its transaction commits, and says when that began: so far back each look goes. */
const OVERLAP_MS = 20_000;
/** So many jobs are told one by one. */
const MOST_DEATHS = 500;
/** Proxies cut what says nothing for long. */
const COMMENT_MS = 15_000;
const MOST_VIEWERS = 200;
/** One of them leaves room for others; behind one token there may be several people. */
const MOST_OF_ONE = 50;
/** So long a credential holds that was looked at once. */
const LIFE_MS = 15 * 60_000;
/** An EventSource comes again after so long. */
const RETRY_MS = 2_000;

@Injectable()
export class News implements OnModuleDestroy {
  readonly #viewers = new Set<Viewer>();
  #next: NodeJS.Timeout | undefined;
  #looking = false;
  /** Up to when deaths were looked for; undefined: nobody has looked. */
  #lookedAt: Date | undefined;
  /** Of those since then, less the overlap: which were told. */
  #told = new Set<string>();
  /** What the last `stats` said. */
  #said = "";
  #failing = false;
  /** Another one whenever nobody looks any more: what a look of before finds is no news. */
  #round = 0;
  #closed = false;

  constructor(
    @Optional() private readonly inspector: JobInspector,
    private readonly snapshot: Snapshot,
  ) {}

  /** `after`: of the last event that he has seen. @throws ProblemException when too many look */
  watch(operator: string, after: Date | undefined): Observable<MessageEvent> {
    if (this.#closed || this.#viewers.size >= MOST_VIEWERS) throw tooMany(MOST_VIEWERS, "");
    const his = [...this.#viewers].filter((viewer) => viewer.operator === operator);
    if (his.length >= MOST_OF_ONE) throw tooMany(MOST_OF_ONE, ` as ${operator}`);
    return new Observable<MessageEvent>((subscriber) => {
      const viewer = new Viewer(operator, subscriber, after?.toISOString() ?? "");
      this.#viewers.add(viewer);
      const beat = setInterval(() => viewer.beat(), COMMENT_MS);
      const life = setTimeout(() => viewer.end(), LIFE_MS);
      void this.#begin(viewer, after);
      this.#lookLater();
      return () => {
        clearInterval(beat);
        clearTimeout(life);
        this.#leave(viewer);
      };
    });
  }

  /** Open streams would keep the server from closing. */
  onModuleDestroy(): void {
    this.#closed = true;
    for (const viewer of this.#viewers) viewer.end();
  }

  #leave(viewer: Viewer): void {
    this.#viewers.delete(viewer);
    if (this.#viewers.size > 0) return;
    clearTimeout(this.#next);
    this.#next = undefined;
    this.#round++;
    this.#lookedAt = undefined;
    this.#told.clear();
    this.#said = "";
    this.#failing = false;
  }

  /** What there is, and who has died since he was cut off. */
  async #begin(viewer: Viewer, after: Date | undefined): Promise<void> {
    try {
      const from = after ?? new Date((await this.inspector.died()).at);
      const recent = await this.inspector.died(before(from), MOST_DEATHS);
      // He may have left meanwhile, as the last one.
      if (this.#viewers.has(viewer)) this.#lookedAt ??= new Date(recent.at);
      if (!after) for (const job of recent.items) viewer.knows(job);
      else if (!recent.complete) viewer.begin(skipped(before(after)));
      else for (const job of recent.items) viewer.begin(death(job), job);
      viewer.begin({ ...statsEvent(await this.snapshot.stats(), recent.at), retry: RETRY_MS });
      viewer.begun();
    } catch (error) {
      // He comes again behind the same event, and misses nothing.
      viewer.begin({ ...trouble(error), retry: RETRY_MS });
      viewer.end();
    }
  }

  #lookLater(): void {
    if (this.#looking) return;
    this.#next ??= setTimeout(() => void this.#look(), EVERY_MS);
  }

  async #look(): Promise<void> {
    this.#looking = true;
    const round = this.#round;
    try {
      const at = await this.#tellDeaths(round);
      const stats = await this.snapshot.stats();
      if (round !== this.#round) return;
      const said = JSON.stringify({ ...stats, readAt: "", ratesSince: "" });
      if (said !== this.#said) this.#tell(statsEvent(stats, at));
      this.#said = said;
      this.#failing = false;
    } catch (error) {
      if (round !== this.#round) return;
      // Once, however long it lasts.
      if (!this.#failing) this.#tell(trouble(error));
      this.#failing = true;
      this.#said = "";
    } finally {
      this.#looking = false;
      this.#next = undefined;
      if (this.#viewers.size > 0) this.#lookLater();
    }
  }

  /** Answers when that was. */
  async #tellDeaths(round: number): Promise<string> {
    const from = this.#lookedAt;
    const { items, at, complete } = await this.inspector.died(from && before(from), MOST_DEATHS);
    if (round !== this.#round) return at;
    const fresh = items.filter((job) => !this.#told.has(deathOf(job)));
    if (!complete) this.#tell(skipped(before(from!)));
    else for (const job of fresh) this.#tell(death(job), job);
    this.#told = new Set(items.map(deathOf));
    this.#lookedAt = new Date(at);
    return at;
  }

  #tell(event: MessageEvent, job?: JobSummary): void {
    for (const viewer of this.#viewers) viewer.tell(event, job);
  }
}

const tooMany = (most: number, who: string): ProblemException =>
  new ProblemException(
    503,
    "TOO_MANY_VIEWERS",
    `Expected at most ${most} who follow at once${who}, found as many; ask GET stats meanwhile.`,
  );

const before = (time: Date): Date => new Date(Math.max(0, time.getTime() - OVERLAP_MS));

const statsEvent = (stats: Stats, id: string): MessageEvent => ({
  type: "stats",
  id,
  data: JSON.stringify(stats),
});

/** Those that come behind it have not died before: whoever goes on from its id misses none of them. */
const death = (job: JobSummary): MessageEvent => ({
  type: "dead",
  id: job.finishedAt!,
  data: JSON.stringify(job),
});

const skipped = (since: Date): MessageEvent => ({
  type: "missed",
  data: JSON.stringify({ since: since.toISOString() }),
});

const trouble = (error: unknown): MessageEvent => ({
  type: "problem",
  data: JSON.stringify(problemOf(error)),
});
