import { Injectable } from "@nestjs/common";
import { type JobContext, JobHandler, type PayloadOf, fixed } from "nestjs-pg-jobs";
import { MakeThumbnail } from "nestjs-pg-jobs-samples";
import { config } from "../config.js";
import { decode } from "./decode.js";

const { attempts, retryDelay } = config.thumbnails;

@Injectable()
export class ThumbnailJobs {
  @JobHandler(MakeThumbnail, { attempts, backoff: fixed(retryDelay, { jitter: 0 }) })
  make({ imageUrl }: PayloadOf<typeof MakeThumbnail>, job: JobContext) {
    job.logger.log("Makes a thumbnail"); // the logger adds the job, and "attempt 1/3"
    const { width, height } = decode(imageUrl);
    const scale = 200 / Math.max(width, height);
    return { width: Math.round(width * scale), height: Math.round(height * scale) };
  }
}
