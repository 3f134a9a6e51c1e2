export { jobsMigrations } from "./jobs-migrations.js";
