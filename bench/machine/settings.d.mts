export const SETTINGS: Record<string, string>;
