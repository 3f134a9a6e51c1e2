export function keptPace(achieved: number, perSecond: number): void;
