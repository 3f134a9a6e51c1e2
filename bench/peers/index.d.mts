export const PEERS: Record<string, { title: string; on?: "redis" }>;
export const ON_POSTGRES: readonly string[];
export const REAL_PEERS: readonly string[];
export const ALL_PEERS: readonly string[];
