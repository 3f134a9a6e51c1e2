import { OptionsError, fixed, parseCron } from "nestjs-pg-jobs";
import { z } from "zod";

/** The environment does not say what an app needs to know; the message has all problems. */
export class EnvironmentError extends Error {
  override readonly name = "EnvironmentError";
  constructor(readonly problems: readonly string[]) {
    super(`The environment has problems:${problems.map((one) => `\n  - ${one}`).join("")}`);
  }
}

const matching = (pattern: RegExp, expected: string) =>
  z.string({ error: `expected ${expected}, found none` }).regex(pattern, `expected ${expected}`);

const DURATION = "a duration such as 500ms, 30s, 5m or 2h";

/** The kinds of variables the apps have. No message shows a value: it may be a secret. */
export const field = {
  databaseUrl: () =>
    matching(
      /^postgres(ql)?:\/\/\S+$/,
      "a URL such as postgres://user:password@localhost:5432/database",
    ),
  schema: () =>
    matching(
      /^[a-z_][a-z0-9_]{0,62}$/,
      "1..63 of a-z, 0-9 and _, not beginning with a digit",
    ).default("jobs"),
  host: () => z.string().default("127.0.0.1"),
  /** 0 takes a free one. */
  port: (absent: number) =>
    z
      .string()
      .refine((text) => /^\d{1,5}$/.test(text) && Number(text) <= 65_535, {
        error: "expected a port, 0..65535",
      })
      .transform(Number)
      .default(absent),
  count: (absent: number, most: number) =>
    z
      .string()
      .refine((text) => /^\d{1,9}$/.test(text) && Number(text) >= 1 && Number(text) <= most, {
        error: `expected a whole number, 1..${most}`,
      })
      .transform(Number)
      .default(absent),
  duration: (absent: string) =>
    z
      .string()
      .refine((text) => durationMs(text) !== undefined, { error: `expected ${DURATION}` })
      .default(absent),
  durationWithin: (least: string, most: string, absent: string) =>
    z
      .string()
      .refine((text) => within(text, least, most), {
        error: `expected ${DURATION}, from ${least} to ${most}`,
      })
      .default(absent),
  word: <const W extends string>(words: readonly [W, ...W[]], absent: NoInfer<W>) =>
    z.enum(words, { error: `expected ${words.join(" or ")}` }).default(absent as never),
  cron: (absent: string) =>
    z
      .string()
      .superRefine((text, context) => {
        const cron = parseCron(text);
        if (Array.isArray(cron)) context.addIssue(cron.join("; "));
      })
      .default(absent),
  /** None when it is absent. */
  urls: () =>
    z
      .string()
      .transform((text) => [...new Set(text.split(",").map((one) => hrefOf(one.trim())))])
      .refine((urls) => !urls.includes(""), {
        error:
          "expected URLs such as http://localhost:3000/feed, without a password, of at most 500 characters, with commas between them",
      })
      .default([]),
  secret: (least: number) =>
    z
      .string({ error: `expected at least ${least} characters, found none` })
      .min(least, `expected at least ${least} characters`)
      .regex(
        /^[A-Za-z0-9._~+/-]+=*$/,
        "expected letters, digits and . _ ~ + / - only, as a bearer token has",
      ),
};

/** Reads all variables; an empty one counts as absent. @throws EnvironmentError with all problems at once. */
export function readEnvironment<S extends z.ZodRawShape>(
  shape: S,
  environment: NodeJS.ProcessEnv,
): z.output<z.ZodObject<S>> {
  const said = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ""));
  const { success, data, error } = z.object(shape).safeParse(said);
  if (success) return data;
  throw new EnvironmentError(
    error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`),
  );
}

/** What `read` answers; an {@link EnvironmentError} ends the process with its message and exit code 1. */
export function orExit<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof EnvironmentError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}

function durationMs(text: string): number | undefined {
  try {
    return fixed(text, { jitter: 0 }).delay(1, undefined, () => 0);
  } catch (error) {
    if (error instanceof OptionsError) return undefined;
    throw error;
  }
}

function within(text: string, least: string, most: string): boolean {
  const ms = durationMs(text);
  return ms !== undefined && ms >= durationMs(least)! && ms <= durationMs(most)!;
}

/** The address as it is sent; empty where none is meant, or one that has a secret in it. */
function hrefOf(text: string): string {
  if (!URL.canParse(text)) return "";
  const { href, protocol, username, password } = new URL(text);
  const fit = /^https?:$/.test(protocol) && !username && !password && href.length <= 500;
  return fit ? href : "";
}
