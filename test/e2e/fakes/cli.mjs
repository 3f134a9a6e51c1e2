// Stands for libs/jobs/bin/pg-jobs.mjs.
const { DATABASE_URL, JOBS_SCHEMA } = process.env;
console.log(`${process.argv.slice(2).join(" ")}: ${JOBS_SCHEMA} ${DATABASE_URL ? "ok" : "?"}`);
