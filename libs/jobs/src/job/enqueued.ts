/** The answer to an enqueued job. */
export interface Enqueued {
  /** The job's id; with `deduplicated`, that of the job that holds the key. */
  id: string;
  /** A job of this kind had the same key, unfinished or within its window: nothing was created. */
  deduplicated: boolean;
  /**
   * With `deduplicated`, of a call with an `onConflict` other than `'keep'`: whether that job was changed. False
   * when it is running or has finished, or when an item before it in the same call had the key; absent otherwise.
   */
  replaced?: boolean;
}
