// The database of this Jest worker, for the specs and for the processes they start.
const url = new URL(process.env.TEST_BASE_URL);
url.pathname = `/jobs_test_${process.env.JEST_WORKER_ID}`;
process.env.DATABASE_URL = url.href;
