// Hints to come. Calls share timers by the time that they ask for, rounded up: however many calls there are, a queue has
// one timer each 2 ms at most, and none of them is told early, nor for another's sake late.

interface Due {
  readonly queueId: number;
  readonly kinds: Set<string>;
  readonly timer: NodeJS.Timeout;
}

const GRAIN_MS = 2;

export class Later {
  readonly #due = new Map<string, Due>();

  constructor(private readonly say: (queueId: number, kinds: ReadonlySet<string>) => void) {}

  /** In so many ms, not before. */
  add(queueId: number, kind: string, ms: number): void {
    const now = performance.now();
    const at = Math.ceil((now + ms) / GRAIN_MS) * GRAIN_MS;
    const key = `${queueId} ${at}`;
    const known = this.#due.get(key);
    if (known) {
      known.kinds.add(kind);
      return;
    }
    const kinds = new Set([kind]);
    const fire = () => {
      this.#due.delete(key);
      this.say(queueId, kinds);
    };
    const timer = setTimeout(fire, Math.ceil(at - now)).unref();
    this.#due.set(key, { queueId, kinds, timer });
  }

  /** Says nothing more; answers which queues were to be told of. */
  clear(): Set<number> {
    const queues = new Set<number>();
    for (const { queueId, timer } of this.#due.values()) {
      clearTimeout(timer);
      queues.add(queueId);
    }
    this.#due.clear();
    return queues;
  }
}
