/** What a benchmark's PostgreSQL has beside being durable. */
export const SETTINGS = { shared_buffers: "1GB", max_wal_size: "4GB" };
