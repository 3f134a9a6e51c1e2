import { finish } from "./finish.js";

/** running → skipped: there was nothing to do; the result says why. */
export const skip = finish("skip", 2);
