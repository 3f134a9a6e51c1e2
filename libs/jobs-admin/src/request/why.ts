import { words } from "./field.js";

/** Of every operation that changes something: in its body, or in its query where it has none; the audit has it. */
export const WHY = { why: words("Why, for those who look.") };

/** Of those that keep who it was beside it. */
export const WHY_AND_BY = { ...WHY, by: words("Ignored: it is who asks.") };
