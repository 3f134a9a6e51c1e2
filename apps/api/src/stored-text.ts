import { z } from "zod";

/** A text that PostgreSQL can keep. */
export const storedText = (least: number, most: number) =>
  z
    .string()
    .min(least)
    .max(most)
    .refine((text) => !text.includes("\0"), { error: "NUL cannot be stored" });
