import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { BatchOptions, JobEvent, JobEventName, QueueOptions } from "nestjs-pg-jobs";
import { until } from "./until.js";

const root = path.resolve(import.meta.dirname, "../..");

/** What a handler of `fault-worker.mjs` does with the payload of a job of kind "task". */
export type Act =
  | { do: "nothing" }
  | { do: "sleep"; ms: number }
  /** Blocks the event loop, in the first attempt. */
  | { do: "block"; ms: number }
  /** Never ends, in the first attempt. */
  | { do: "spin" }
  /** Kills its own process. */
  | { do: "die"; ms: number }
  /** Writes a row of `payment` in `job.transaction()`; in the first attempt it dies at this step. */
  | { do: "pay"; source: "ours" | "theirs"; die?: Death; ms?: number }
  /** Waits until it is told how to end. */
  | { do: "gate" };

/** Where a process dies: at a line of the body, or at a statement, before it is sent or after its answer. */
export type Death = "before-write" | "after-write" | { sends: string; answered: boolean };

export const VERBS = ["return", "throw", "snooze", "skip", "bury", "renew", "enqueue"] as const;
export type Verb = (typeof VERBS)[number];

/** One line of the ledger that handlers write. */
export interface LedgerLine {
  what: "start" | "end";
  id: string;
  attempt: number;
  /** The worker id of the claim: with the attempt it is the fence. */
  worker: number;
  pid: number;
  at: number;
}

/** A file that handlers of several processes append to; no fault of a database or process takes a line back. */
export class Ledger {
  readonly #folder = mkdtempSync(path.join(tmpdir(), "jobs-ledger-"));
  readonly file = path.join(this.#folder, "ledger");

  constructor() {
    writeFileSync(this.file, "");
  }

  lines(): LedgerLine[] {
    const text = readFileSync(this.file, "utf8");
    // A process may die in the middle of a line.
    return text
      .slice(0, text.lastIndexOf("\n") + 1)
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as LedgerLine);
  }

  starts(id?: string): LedgerLine[] {
    return this.lines().filter((line) => line.what === "start" && (!id || line.id === id));
  }

  /** How often each job was started. */
  startsById(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { id } of this.starts()) counts.set(id, (counts.get(id) ?? 0) + 1);
    return counts;
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export interface FaultWorkerOptions {
  url: string;
  schema: string;
  ledger: Ledger;
  /** Default: "default" with 10 slots and a prefetch of 10. */
  queues?: Record<string, QueueOptions>;
  /** Default 2 s. */
  lease?: string;
  /** Default 200 ms. */
  poll?: string;
  grace?: string;
  /** Default true. */
  notify?: boolean;
  /** The name of its service. */
  service?: string;
  /** The names of its subscribers to the event "happened"; absent: it has none. */
  subscribers?: string[];
  /** How its handler of "batched" is called; absent: it has none. */
  batch?: BatchOptions;
  /** Events that are told one by one; all others are only counted. */
  told?: JobEventName[];
  /** The folder of a built release; default: that of this tree. */
  release?: string;
}

export interface Report {
  /** Attempts that the worker found in other hands. */
  lost: number;
  running: number;
  counts: Record<JobEventName, number>;
}

interface Called {
  id: string;
  attempt: number;
  answer: string;
}
interface Aborted {
  id: string;
  attempt: number;
  reason: string;
  at: number;
}

const TOLD: JobEventName[] = [
  "rescued",
  "lost",
  "died",
  "retried",
  "snoozed",
  "skipped",
  "handed-back",
];
/** Only then does a process take over expired leases. */
const TAKES_OVER_AFTER_MS = 10_000;

/** Processes that have to be gone when this one is. */
const alive = new Set<ChildProcess>();
process.once("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

let built = false;
/** The processes run `dist`: a spec must not test an older build. */
function build(): void {
  if (built) return;
  const { status, stderr } = spawnSync(
    process.execPath,
    [path.join(root, "tools/build.mjs"), "--if-changed"],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(`the build failed: ${stderr}`);
  built = true;
}

/** A real worker process of the built library. */
export class WorkerProcess {
  readonly events: (JobEvent & { at: number })[] = [];
  readonly gated: { id: string; attempt: number }[] = [];
  readonly aborted: Aborted[] = [];
  readonly called: Called[] = [];
  output = "";
  #readyAt: number | undefined;
  #reports = new Map<number, Report>();
  readonly #made = new Map<number, { ids?: string[]; error?: string }>();
  #asked = 0;
  #closed = false;

  private constructor(private readonly child: ChildProcess) {
    alive.add(child);
    child.once("close", () => {
      alive.delete(child);
      this.#closed = true;
    });
    for (const stream of [child.stdout!, child.stderr!])
      stream.setEncoding("utf8").on("data", (text) => (this.output += text));
    child.on("message", (message) => this.#hear(message as Message));
    // It may be gone when something is said to it.
    child.on("error", () => {});
  }

  static start({ ledger, ...options }: FaultWorkerOptions): WorkerProcess {
    build();
    const settings = {
      queues: { default: { concurrency: 10, prefetch: 10 } },
      lease: "2s",
      poll: "200ms",
      told: TOLD,
      release: path.join(root, "libs/jobs/dist"),
      ...options,
      ledger: ledger.file,
    };
    const child = spawn(
      process.execPath,
      [path.join(root, "test/fixtures/fault-worker.mjs"), JSON.stringify(settings)],
      {
        stdio: ["ignore", "pipe", "pipe", "ipc"],
        env: { ...process.env, NO_COLOR: "1", NODE_OPTIONS: "" },
      },
    );
    return new WorkerProcess(child);
  }

  /** Several at once, all of them ready. */
  static async startAll(count: number, options: FaultWorkerOptions): Promise<WorkerProcess[]> {
    const workers = Array.from({ length: count }, () => WorkerProcess.start(options));
    await Promise.all(workers.map((worker) => worker.ready()));
    return workers;
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Whether it has ended, however. */
  get over(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Its connection for claims has answered. */
  async ready(): Promise<void> {
    await this.#until(() => this.#readyAt !== undefined, "the worker is ready", 30_000);
  }

  /** Connected for so long that it takes over what others have let expire. */
  async seasoned(): Promise<void> {
    await this.ready();
    const at = this.#readyAt! + TAKES_OVER_AFTER_MS + 100;
    await this.#until(() => performance.now() >= at, "it may take over", 15_000);
  }

  /** Waits until this job has reached its gate here, in this attempt or a later one. */
  async atGate(id: string, attempt = 1, timeout = 20_000): Promise<void> {
    const reached = () => this.gated.some((one) => one.id === id && one.attempt >= attempt);
    await this.#until(reached, `job ${id} is at its gate`, timeout);
  }

  /** Opens the gate of a job; with `afterAbort` it goes on only when its signal has aborted. */
  tell(id: string, verb: Verb, { afterAbort = false } = {}): void {
    this.child.send({ type: "do", id, verb, afterAbort });
  }

  /** What the worker says of itself now. */
  async report(): Promise<Report> {
    const number = ++this.#asked;
    this.child.send({ type: "report", number });
    await this.#until(() => this.#reports.has(number), "the worker reports");
    const report = this.#reports.get(number)!;
    this.#reports.delete(number);
    return report;
  }

  /** Enqueues in that process, half of them one by one with keys that begin so; answers their ids. */
  async enqueue(kind: string, payloads: readonly object[], keys?: string): Promise<string[]> {
    const number = ++this.#asked;
    this.child.send({ type: "enqueue", number, kind, payloads, keys });
    await this.#until(() => this.#made.has(number), "it has enqueued", 30_000);
    const { ids, error } = this.#made.get(number)!;
    this.#made.delete(number);
    if (!ids) throw new Error(error);
    return ids;
  }

  heard(name: JobEventName, id?: string): (JobEvent & { at: number })[] {
    return this.events.filter((one) => one.event === name && (!id || one.id === id));
  }

  kill(signal: NodeJS.Signals = "SIGKILL"): void {
    this.child.kill(signal);
  }

  /** Freezes it; `cont` lets it go on. */
  stop(): void {
    this.child.kill("SIGSTOP");
  }

  cont(): void {
    this.child.kill("SIGCONT");
  }

  /** How it ended: its code, or the signal that killed it. */
  async exit(timeout = 40_000): Promise<number | NodeJS.Signals> {
    await until(() => this.#closed, { timeout, what: `worker ${this.pid} ends` });
    return this.child.exitCode ?? this.child.signalCode!;
  }

  /** Drains it by SIGTERM, or kills it when it does not heed. */
  async end(): Promise<number | NodeJS.Signals> {
    if (!this.over) {
      this.cont();
      this.kill("SIGTERM");
      const force = setTimeout(() => this.kill("SIGKILL"), 20_000);
      await this.exit();
      clearTimeout(force);
    }
    return this.child.exitCode ?? this.child.signalCode!;
  }

  async #until(check: () => unknown, what: string, timeout = 20_000): Promise<void> {
    let gone = false;
    await until(() => (gone = this.over) || check(), { what, timeout, every: 5 });
    if (gone) throw new Error(`worker ${this.pid} has ended before ${what}: ${this.output}`);
  }

  #hear(message: Message): void {
    switch (message.type) {
      case "ready":
        this.#readyAt = performance.now();
        break;
      case "event":
        this.events.push({ ...message.event, at: message.at });
        break;
      case "report":
        this.#reports.set(message.number, message);
        break;
      case "made":
        this.#made.set(message.number, message);
        break;
      default:
        this[message.type].push(message as never);
    }
  }
}

type Message =
  | { type: "ready" }
  | { type: "event"; event: JobEvent; at: number }
  | ({ type: "report"; number: number } & Report)
  | { type: "made"; number: number; ids?: string[]; error?: string }
  | { type: "gated"; id: string; attempt: number }
  | ({ type: "aborted" } & Aborted)
  | ({ type: "called" } & Called);
