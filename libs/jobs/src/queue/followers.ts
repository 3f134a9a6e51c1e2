import { FollowClosedError } from "../job/errors.js";
import { readable } from "../job/options-check.js";
import { type FollowOptions, parseFollowOptions } from "../job/follow-options.js";
import { newLines, whereabouts } from "../store/reads/news.js";
import type { Store } from "../store/store.js";
import { callerError } from "./failure.js";
import { Followed, LINES } from "./follow.js";
import { Follower } from "./follower.js";

// Tells those who follow jobs what is new. However many they are: two statements a second look at all the jobs, so many
// at a time. Only for those who ask: who is slow is not heaped with news, who has gone leaves nothing.

const POLL_MS = 1_000;
const MAX_BATCH = 500;

interface Place {
  readonly job: Followed;
  readonly follower: Follower;
}

export class Followers {
  readonly #asking = new Set<Place>();
  readonly #due = new Set<Place>();
  #running = false;
  #poll: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(private readonly store: Store) {}

  /** @throws BadJobIdError, OptionsError, BadCursorError */
  follow(id: string, options?: FollowOptions): Follower {
    const { signal, after } = readable("follow", () => parseFollowOptions(options));
    const job = new Followed(id, after);
    const follower = new Follower(signal, {
      ask: () => this.#ask(place),
      rest: () => this.#rest(place),
    });
    const place: Place = { job, follower };
    return follower;
  }

  /** Whoever still asks is told that nobody looks any more. */
  close(): void {
    this.#closed = true;
    for (const place of this.#asking) this.#refuse(place);
  }

  #refuse({ follower, job }: Place): void {
    follower.fail(new FollowClosedError(job.id));
  }

  #ask(place: Place): void {
    if (this.#closed) return this.#refuse(place);
    this.#asking.add(place);
    if (place.job.behind) this.#lookAt([place]);
    this.#pollLater();
  }

  #rest(place: Place): void {
    this.#asking.delete(place);
    this.#due.delete(place);
    if (this.#asking.size > 0) return;
    clearTimeout(this.#poll);
    this.#poll = undefined;
  }

  #pollLater(): void {
    this.#poll ??= setTimeout(() => {
      this.#poll = undefined;
      this.#pollLater();
      this.#lookAt(this.#asking);
    }, POLL_MS);
  }

  #lookAt(these: Iterable<Place>): void {
    for (const place of these) this.#due.add(place);
    if (this.#running) return;
    this.#running = true;
    // Calls of the same moment go together.
    setImmediate(() => void this.#run());
  }

  async #run(): Promise<void> {
    while (this.#due.size > 0) {
      const batch = [...this.#due].slice(0, MAX_BATCH);
      for (const place of batch) this.#due.delete(place);
      await this.#look(batch);
    }
    this.#running = false;
  }

  async #look(batch: readonly Place[]): Promise<void> {
    const { store } = this;
    const jobs = batch.map(({ job }) => job);
    try {
      await store.needs(2, "logs");
      // Its end is written after its last lines: whoever has seen it sees all of them.
      const found = await whereabouts(store.aside, jobs);
      const lines = await newLines(store.aside, jobs, LINES);
      batch.forEach(({ job, follower }, index) => {
        const news = [...job.newsOf(found.get(job.id), lines[index]!)];
        follower.tell(news, job.over);
      });
    } catch (error) {
      const told = callerError(error, store.schema, "read");
      for (const { follower } of batch) follower.fail(told);
    }
  }
}
