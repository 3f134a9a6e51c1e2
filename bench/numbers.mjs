// The arithmetic of the benchmark.

/** The middle one; of an even number of them the mean of the two in the middle. */
export function median(numbers) {
  if (numbers.length === 0) return undefined;
  const sorted = ascending(numbers);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The least and the most. */
export function spread(numbers) {
  const sorted = ascending(numbers);
  return { least: sorted[0], most: sorted.at(-1) };
}

/** The nearest rank: at least `share` of the numbers are not above it. */
export function percentile(numbers, share) {
  const sorted = ascending(numbers);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
}

const ascending = (numbers) => [...numbers].sort((a, b) => a - b);
