import type { CanActivate, ModuleMetadata, Type } from "@nestjs/common";
import { OptionsCheck } from "nestjs-pg-jobs";
import type { OperatorRequest, TellOperator } from "./auth/own-guard.js";
import type { AdminOperator } from "./auth/operator.js";
import { ADMIN_ROLES, type AdminRole } from "./auth/roles.js";
import { type AdminTokens, checkTokens } from "./auth/tokens.js";
import { checkRedaction } from "./payloads/redaction.js";

type Told = AdminOperator | null | undefined;

/** The options of {@link JobsAdminModule.forRoot}. One of `tokens`, `guard` and `development` says who comes in. */
export interface JobsAdminOptions {
  /** Bearer tokens by role, each of at least 16 characters. */
  tokens?: AdminTokens;
  /** Your own: a class, made with what `imports` exports, or an instance. */
  guard?: Type<CanActivate> | CanActivate;
  /** Says who it is that `guard` has let in; null: nobody. Absent: everybody is a viewer. */
  operator?(request: OperatorRequest): Told | Promise<Told>;
  /** Asks for nothing, serves this machine only. Never behind a proxy: one that adds no header makes everybody an admin. */
  development?: boolean;
  /** What is never shown, such as `payload.card.number`, `result.token`, `*.password`; default none. */
  redact?: readonly string[];
  /** Who sees payloads and results; default `'operator'`. */
  payloads?: AdminRole;
  /** The modules that export what the guard injects; default none. */
  imports?: NonNullable<ModuleMetadata["imports"]>;
  /** Where it is mounted; default `'admin'`. */
  path?: string;
}

/** {@link JobsAdminOptions} after the check, defaults filled in. */
export interface ParsedAdminOptions {
  readonly tokens: AdminTokens | undefined;
  readonly guard: Type<CanActivate> | CanActivate | undefined;
  readonly operator: TellOperator | undefined;
  readonly redact: readonly string[];
  readonly payloads: AdminRole;
  readonly imports: NonNullable<ModuleMetadata["imports"]>;
  readonly path: string;
}

const DOORS = ["tokens", "guard", "development"] as const;
const OTHERS = ["operator", "redact", "payloads", "imports", "path"];
const CLOSED =
  "expected a guard (a class or an instance with canActivate), found none, and no tokens either: the admin API is closed by default";

/** Checks all of them at once. @throws OptionsError */
export function parseAdminOptions(options: JobsAdminOptions): ParsedAdminOptions {
  const given: unknown = options ?? {};
  const check = new OptionsCheck("options of JobsAdminModule.forRoot");
  const said = check.absentOr("", given, [...DOORS, ...OTHERS]);
  checkDoor(check, said);
  const operator = functionAt(check, "operator", said.operator);
  if (said.operator !== undefined && said.guard === undefined)
    check.add("operator: expected beside guard only, whom it tells apart");
  checkRedaction(check, said.redact);
  const payloads = check.word("payloads", said.payloads, ADMIN_ROLES) ?? "operator";
  if (said.imports !== undefined && !Array.isArray(said.imports))
    check.expected("imports", "a list of modules", said.imports);
  if (said.path !== undefined && typeof said.path !== "string")
    check.expected("path", "where it is mounted, such as 'admin'", said.path);
  check.done();
  const { tokens, guard, redact = [], imports = [], path = "admin" } = options;
  return Object.freeze({ tokens, guard, operator, redact, payloads, imports, path });
}

function checkDoor(check: OptionsCheck, said: Record<string, unknown>): void {
  const development = check.flag("development", said.development) === true;
  const found = DOORS.filter((door) =>
    door === "development" ? development : said[door] !== undefined,
  );
  if (found.length === 0) check.add(`guard: ${CLOSED}`);
  if (found.length > 1)
    check.add(
      `${found.join(", ")}: expected one of them, to say who comes in, found ${found.length}`,
    );
  if (said.tokens !== undefined) checkTokens(check, said.tokens);
  if (said.guard !== undefined && !isGuard(said.guard)) check.add(`guard: ${NO_GUARD}`);
}

const NO_GUARD = "expected a guard (a class or an instance with canActivate), found something else";

function isGuard(value: unknown): boolean {
  const made: unknown = typeof value === "function" ? value.prototype : value;
  return typeof (made as Partial<CanActivate> | null | undefined)?.canActivate === "function";
}

function functionAt(check: OptionsCheck, at: string, value: unknown): TellOperator | undefined {
  if (value === undefined || typeof value === "function") return value as TellOperator | undefined;
  return check.expected(at, "a function (request) => ({ name, role })", value);
}
