import type { ExecutionContext } from "@nestjs/common";
import type { AdminOperator } from "./operator.js";

/** The {@link Door} of the module. */
export const ADMIN_DOOR = "nestjs-pg-jobs-admin:door";

/** Decides who comes in. */
export interface Door {
  /** Who it is. @throws an HttpException with 401 or 403 for whom it does not let in. */
  admit(context: ExecutionContext): Promise<AdminOperator>;
  /** What to do for somebody whose role is too weak. */
  readonly remedy: string;
}
