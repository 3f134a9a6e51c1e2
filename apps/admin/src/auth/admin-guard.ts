import { config } from "../config.js";
import { AdminTokenGuard } from "./admin-token.guard.js";

/** The guard of everything here that not everybody may see. */
export const adminGuard = new AdminTokenGuard(config.token);
