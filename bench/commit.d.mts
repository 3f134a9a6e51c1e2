export function commit(): string | undefined;
