import type { MessageEvent } from "@nestjs/common";
import type { JobSummary } from "nestjs-pg-jobs";
import type { Subscriber } from "rxjs";

/** A job that has died again after a requeue is told again. */
export const deathOf = ({ id, finishedAt }: JobSummary): string => `${id} ${finishedAt}`;

/** Somebody who looks: told nothing of what is new before he has been told what there is. */
export class Viewer {
  /** What came meanwhile. */
  #held: (() => void)[] | undefined = [];
  /** Of the beginning: looks go back over the same seconds. */
  readonly #told = new Set<string>();

  constructor(
    /** Who it is. */
    readonly operator: string,
    private readonly subscriber: Subscriber<MessageEvent>,
    /** What he has seen last; '': nothing. */
    private last: string,
  ) {}

  /** The beginning; jobs of it are not told once more when they come as news. */
  begin(event: MessageEvent, job?: JobSummary): void {
    if (job) this.#told.add(deathOf(job));
    this.#send(event);
  }

  /** It died before he came. */
  knows(job: JobSummary): void {
    this.#told.add(deathOf(job));
  }

  /** From now on news are told as they come. */
  begun(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const tell of held) tell();
  }

  tell(event: MessageEvent, job?: JobSummary): void {
    if (this.#held) this.#held.push(() => this.tell(event, job));
    else if (!job || !this.#told.has(deathOf(job))) this.#send(event);
  }

  /** A comment, which keeps proxies from cutting what says nothing. */
  beat(): void {
    this.subscriber.next({ comment: "" });
  }

  end(): void {
    this.subscriber.complete();
  }

  /** Nest numbers what has no id, and no number is one of ours. */
  #send(event: MessageEvent): void {
    this.last = event.id ?? this.last;
    this.subscriber.next({ ...event, id: this.last });
  }
}
