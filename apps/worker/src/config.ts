import { type Backoff, OptionsError, exponential, linear } from "nestjs-pg-jobs";
import { EnvironmentError, field, orExit, readEnvironment } from "nestjs-pg-jobs-samples";

const environment = orExit(() =>
  readEnvironment(
    {
      DATABASE_URL: field.databaseUrl(),
      JOBS_SCHEMA: field.schema(),
      HOST: field.host(),
      WORKER_PORT: field.port(8081),
      WORKER_LEASE: field.durationWithin("1s", "24h", "30s"),
      THUMBNAIL_ATTEMPTS: field.count(3, 1_000),
      THUMBNAIL_RETRY_DELAY: field.duration("30s"),
      FEED_SOURCES: field.urls(),
      FEED_CRON: field.cron("*/2 * * * *"),
      FEED_ATTEMPTS: field.count(5, 1_000),
      FEED_BACKOFF: field.word(["linear", "exponential"], "exponential"),
      FEED_RETRY_DELAY: field.duration("10s"),
      FEED_RETRY_MAX: field.duration("5m"),
      FEED_TIMEOUT: field.duration("30s"),
    },
    process.env,
  ),
);

/** What the environment says; nothing else of the app reads it. */
export const config = {
  databaseUrl: environment.DATABASE_URL,
  schema: environment.JOBS_SCHEMA,
  host: environment.HOST,
  port: environment.WORKER_PORT,
  lease: environment.WORKER_LEASE,
  thumbnails: {
    attempts: environment.THUMBNAIL_ATTEMPTS,
    retryDelay: environment.THUMBNAIL_RETRY_DELAY,
  },
  feeds: {
    sources: environment.FEED_SOURCES,
    cron: environment.FEED_CRON,
    attempts: environment.FEED_ATTEMPTS,
    backoff: orExit(feedBackoff),
    timeout: environment.FEED_TIMEOUT,
  },
};

/** Each value is good by itself by now, and may yet not go with the other. */
function feedBackoff(): Backoff {
  const { FEED_BACKOFF, FEED_RETRY_DELAY: first, FEED_RETRY_MAX: max } = environment;
  try {
    return FEED_BACKOFF === "linear" ? linear({ first, max }) : exponential({ first, max });
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    throw new EnvironmentError([
      `FEED_RETRY_MAX: expected at least FEED_RETRY_DELAY (${first}), found ${max}`,
    ]);
  }
}
