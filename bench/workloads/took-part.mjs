/** Of an even share; of two processes, each runs a fifth of the jobs at least. */
const LEAST = 0.4;

/** @throws when one of several worker processes had next to nothing of the jobs: then it was not about several */
export function tookPart(reports) {
  const counts = reports.map(({ runs }) => runs.reduce((sum, n) => sum + n, 0));
  const all = counts.reduce((sum, count) => sum + count, 0);
  const least = Math.min(...counts);
  if (least >= (LEAST * all) / counts.length) return;
  const percent = (share) => `${Math.round(share * 100)} %`;
  throw new Error(
    `one of ${counts.length} worker processes ran ${percent(least / all)} of the jobs, expected at least ${percent(LEAST / counts.length)}`,
  );
}
