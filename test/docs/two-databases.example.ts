import {
  Injectable,
  type INestApplicationContext,
  Module,
  type OnApplicationShutdown,
  type OnModuleInit,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { JobQueue, JobsModule } from "nestjs-pg-jobs";

@Module({
  imports: [
    JobsModule.forRootAsync({
      useFactory: () => ({ connection: { url: process.env.BILLING_DATABASE_URL! } }),
    }),
  ],
})
class BillingDatabase {}

/** Jobs of the other database. */
@Injectable()
export class BillingJobs implements OnModuleInit, OnApplicationShutdown {
  #context!: INestApplicationContext;

  get queue(): JobQueue {
    return this.#context.get(JobQueue);
  }

  async onModuleInit() {
    this.#context = await NestFactory.createApplicationContext(BillingDatabase);
  }
  async onApplicationShutdown() {
    await this.#context.close();
  }
}
