export function tookPart(reports: readonly { runs: Uint8Array }[]): void;
