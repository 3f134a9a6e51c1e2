import { z } from "zod";
import { storedText } from "../stored-text.js";

/** The body of `POST /reminders`. */
export const NewReminder = z.strictObject({
  to: z.email().max(254),
  text: storedText(1, 2_000),
});
export type NewReminder = z.output<typeof NewReminder>;
