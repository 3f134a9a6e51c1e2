import { z } from "zod";

/** The body of `POST /reminders`. */
export const NewReminder = z.strictObject({
  to: z.email().max(254),
  text: z
    .string()
    .min(1)
    .max(2_000)
    .refine((text) => !text.includes("\0"), { error: "NUL cannot be stored" }),
});
export type NewReminder = z.output<typeof NewReminder>;
