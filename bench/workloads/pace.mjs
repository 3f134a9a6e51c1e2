/** Of what was asked for: below it, the figures are of another load. */
const LEAST = 0.97;

/** @throws unless jobs came about as fast as they were meant to */
export function keptPace(achieved, perSecond) {
  if (achieved >= LEAST * perSecond) return;
  throw new Error(
    `the pace was ${Math.round(achieved)} jobs a second, expected ${perSecond}, or at least ${LEAST * 100} % of it`,
  );
}
