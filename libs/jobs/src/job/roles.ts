import type { OptionsCheck } from "./options-check.js";

/** Who connects to the database other than as the owner of the schema: the names of roles that exist. */
export interface Roles {
  /** Enqueues, cancels, waits for results, publishes, keeps schedules. */
  producer?: string | readonly string[];
  /** Runs jobs; handlers may enqueue too. */
  worker?: string | readonly string[];
  /** Looks at everything, requeues, pauses and limits. */
  admin?: string | readonly string[];
}

/** One of the three things that a role may be. */
export type RoleOf = (typeof ROLES)[number];

export const ROLES = ["producer", "worker", "admin"] as const;

/** {@link Roles} after checking: only those that were named. */
export type ParsedRoles = ReadonlyMap<RoleOf, readonly string[]>;

export const NO_ROLES: ParsedRoles = new Map();

// What PostgreSQL cuts off would name somebody else.
const MAX_BYTES = 63;

/** Reads them where they stand in options. */
export function parseRoles(check: OptionsCheck, value: unknown, at = "roles"): ParsedRoles {
  const given = check.absentOr(at, value, ROLES);
  const roles = new Map<RoleOf, readonly string[]>();
  for (const role of ROLES) {
    if (given[role] === undefined) continue;
    const names: unknown[] = Array.isArray(given[role]) ? given[role] : [given[role]];
    const good = names.filter(isRoleName);
    if (good.length < names.length || names.length === 0) {
      const bad = names.find((name) => !isRoleName(name));
      check.expected(`${at}.${role}`, ROLE_NAME, bad);
    } else roles.set(role, [...new Set(good)]);
  }
  return roles;
}

/** Whether it can name one role; `public` is everybody. */
export const isRoleName = (name: unknown): name is string =>
  typeof name === "string" &&
  name !== "public" &&
  !name.includes("\0") &&
  name.isWellFormed() &&
  name.length > 0 &&
  Buffer.byteLength(name) <= MAX_BYTES;

/** What {@link isRoleName} asks for, in words. */
export const ROLE_NAME = `the name of a role, of at most ${MAX_BYTES} bytes, other than public`;
