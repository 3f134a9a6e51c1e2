// The database of this Jest worker, for the specs and for the processes they start.
const named = (base) => {
  const url = new URL(base);
  url.pathname = `/${process.env.TEST_DATABASES}_${process.env.JEST_WORKER_ID}`;
  return url.href;
};
process.env.DATABASE_URL = named(process.env.TEST_BASE_URL);
if (process.env.TEST_POOLER_URL) process.env.POOLER_URL = named(process.env.TEST_POOLER_URL);
