/** What an operator may do; each role may do all that those before it may. */
export const ADMIN_ROLES = ["viewer", "operator", "admin"] as const;

/** One of {@link ADMIN_ROLES}: look; act on one thing; change what others rely on. */
export type AdminRole = (typeof ADMIN_ROLES)[number];

/** Whether who has `role` may do what needs `needed`. */
export const reaches = (role: AdminRole, needed: AdminRole): boolean =>
  ADMIN_ROLES.indexOf(role) >= ADMIN_ROLES.indexOf(needed);
