import { type INestApplication, Logger, type Type } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import type { AddressInfo } from "node:net";
import { EnvironmentError } from "./environment.js";
import { endWithLauncher, tellLauncher } from "./launcher.js";

/** Where an app listens. */
export interface ServeOptions {
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** The variable that names the port, for the message when it is taken. */
  portVariable: string;
}

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Runs an HTTP app as a process: exit code 0 after SIGTERM or SIGINT, 1 with a reason when it cannot start. */
export async function serveHttp(module: Type<unknown>, options: ServeOptions): Promise<void> {
  endWithLauncher();
  // Nest listens once the app is made, which waits for the database; and the first process of a container would ignore them.
  const end = () => process.exit(0);
  for (const signal of SIGNALS) process.on(signal, end);
  let app: INestApplication | undefined;
  try {
    app = configureHttp(await NestFactory.create(module, { abortOnError: false }));
    app.enableShutdownHooks([...SIGNALS], { useProcessExit: true });
    for (const signal of SIGNALS) process.off(signal, end);
    await app.listen(options.port, options.host);
  } catch (error) {
    const known = error instanceof EnvironmentError ? error.message : undefined;
    const reason = known ?? portProblem(error, options);
    new Logger("Http").error(reason ?? "The app cannot start", ...(reason ? [] : [error]));
    await app?.close();
    process.exit(1);
  }
  tellLauncher({ type: "ready", port: (app.getHttpServer().address() as AddressInfo).port });
}

/** Headers for an API that no browser page belongs to. HSTS is for whoever ends TLS in front of it. */
export function configureHttp(app: INestApplication): INestApplication {
  return app.useSecurityHeaders({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: "'none'", frameAncestors: "'none'" },
    },
    xFrameOptions: { action: "deny" },
    strictTransportSecurity: false,
  });
}

function portProblem(error: unknown, { host, port, portVariable }: ServeOptions) {
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (syscall !== "listen") return undefined;
  const reason = code === "EADDRINUSE" ? "is taken" : `cannot be used (${code})`;
  return `Port ${port} on ${host} ${reason}; set ${portVariable} or HOST to something else`;
}
