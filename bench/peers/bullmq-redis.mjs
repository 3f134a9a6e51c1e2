import { Redis } from "ioredis";
import { openBullMq } from "./bullmq.mjs";

export const open = ({ redis: { host, port } }) =>
  openBullMq({
    connection: { host, port, maxRetriesPerRequest: null },
    concurrency: 100,
    install: async () => {
      const redis = new Redis({ host, port });
      await redis.flushall();
      await redis.quit();
    },
  });
