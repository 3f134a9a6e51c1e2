export function median(numbers: readonly number[]): number | undefined;
export function spread(numbers: readonly number[]): { least: number; most: number };
export function percentile(numbers: readonly number[], share: number): number;
