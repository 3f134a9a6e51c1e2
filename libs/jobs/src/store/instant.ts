// An instant as statements answer it, in ms: raw text of a session is not parsed as dates are.

/** SQL: an instant, as ms. */
export const ms = (time: string): string => `(extract(epoch from ${time}) * 1000)::text`;

/** A `timestamptz` as a session writes it, `2026-11-19 21:17:38.1234+00`, in ms; NaN for what no Date can be. */
export const millisOf = (text: string): number =>
  Date.parse(`${text.slice(0, 10)}T${text.slice(11, -3)}Z`);

export const instant = (text: string | null | undefined): Date | null =>
  text == null ? null : new Date(Math.round(Number(text)));
