import { type INestApplicationContext, Logger, type Type } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { JobsError, OptionsError } from "./job/errors.js";
import { JobsWorkerModule } from "./jobs-worker.module.js";
import { Exposition } from "./observe/exposition.js";
import {
  type ParsedRunWorkerOptions,
  type RunWorkerOptions,
  parseRunWorkerOptions,
} from "./run-worker.options.js";
import { type HealthServer, serveHealth } from "./worker-health.js";

/** A worker process that is up. */
export interface RunningWorker {
  app: INestApplicationContext;
  /** Where health is served; 0 without. */
  port: number;
  /**
   * Drains and closes without ending the process; from then on signals are yours again. One that comes meanwhile ends
   * the process as it always does.
   * @returns whether all handlers had ended.
   */
  close(): Promise<boolean>;
}

const EXIT = { drained: 0, bootFailed: 1, overdue: 70 } as const;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;
/** After the grace period the process is gone so much later, whatever hangs. */
const BEYOND_GRACE_MS = 5_000;

/**
 * Runs an app as a worker process: boots it, serves health, drains on SIGTERM and SIGINT, and exits:
 * 0 drained, 1 the boot failed, 70 the grace period and 5 s are over.
 */
export async function runWorker(
  module: Type<unknown>,
  options: RunWorkerOptions = {},
): Promise<RunningWorker> {
  const logger = new Logger("Worker");
  const { health: probes } = checked(options, logger);
  // Of an app that is not up Nest hands nothing out, and its workers may be at work already.
  const workers: JobsWorkerModule[] = [];
  const expositions: Exposition[] = [];
  let app: INestApplicationContext | undefined;
  let health: HealthServer | undefined;
  let closing: Promise<boolean> | undefined;
  const close = (): Promise<boolean> => {
    closing ??= (async () => {
      health?.drain();
      try {
        if (app) await app.close();
        else await Promise.allSettled(workers.map((one) => one.onModuleDestroy()));
        await health?.close();
      } finally {
        // What comes after the end is no affair of ours.
        for (const signal of SIGNALS) process.off(signal, onSignal);
      }
      return workers.every((one) => one.drained);
    })();
    return closing;
  };
  let ending = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (ending) return;
    ending = true;
    logger.log("Draining", { signal });
    exitAfterGrace(workers, EXIT.overdue);
    void close().then(
      (drained) => process.exit(drained ? EXIT.drained : EXIT.overdue),
      (error: unknown) => {
        logger.error("Closing failed", error);
        process.exit(EXIT.overdue);
      },
    );
  };
  // Before the boot: jobs may run while other parts of the app still begin.
  for (const signal of SIGNALS) process.on(signal, onSignal);
  try {
    app = await NestFactory.createApplicationContext(module, {
      abortOnError: false,
      instrument: { instanceDecorator: noting(workers, expositions) },
    });
    if (probes) health = await serveHealth(probes, workers, expositions[0]);
    return { app, port: health?.port ?? 0, close };
  } catch (error) {
    if (!app && isTold(error)) logger.error("The worker cannot start");
    else if (error instanceof JobsError) logger.error(`The worker cannot start: ${error.message}`); // its message, not our stack
    else logger.error("The worker cannot start", error);
    // It must not go on, but it may have claimed jobs already: they are not dropped.
    ending = true;
    exitAfterGrace(workers, EXIT.bootFailed);
    await close();
    process.exit(EXIT.bootFailed);
  }
}

const noting =
  (workers: JobsWorkerModule[], expositions: Exposition[]) =>
  (instance: unknown): unknown => {
    if (instance instanceof JobsWorkerModule) workers.push(instance);
    else if (instance instanceof Exposition) expositions.push(instance);
    return instance;
  };

/** Before anything is opened. */
function checked(options: RunWorkerOptions, logger: Logger): ParsedRunWorkerOptions {
  try {
    return parseRunWorkerOptions(options);
  } catch (error) {
    // Its message, not our stack.
    logger.error(`The worker cannot start: ${(error as Error).message}`);
    process.exit(EXIT.bootFailed);
  }
}

function exitAfterGrace(workers: readonly JobsWorkerModule[], code: number): void {
  const patience = Math.max(0, ...workers.map((one) => one.graceMs)) + BEYOND_GRACE_MS;
  setTimeout(() => process.exit(code), patience).unref();
}

/** Nest logs what a constructor or factory throws, the worker what is wrong with handlers; nobody, what a hook throws. */
const isTold = (error: unknown): boolean =>
  error instanceof OptionsError ||
  /[\\/]core[\\/]injector[\\/]/.test((error as Error | undefined)?.stack ?? "");
