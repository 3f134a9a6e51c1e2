// An instant as statements answer it, in ms: raw text of a session is not parsed as dates are.

/** SQL: an instant, as ms. */
export const ms = (time: string): string => `(extract(epoch from ${time}) * 1000)::text`;

export const instant = (text: string | null | undefined): Date | null =>
  text == null ? null : new Date(Math.round(Number(text)));
