export function now(): number;
