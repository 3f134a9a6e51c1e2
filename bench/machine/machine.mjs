// What a benchmark runs on: the servers, and who pays for what.
import { cpus, totalmem } from "node:os";
import { Cluster } from "./cluster.mjs";
import { findRedis, RedisServer } from "./redis.mjs";

export class Machine {
  static async start({ redis }) {
    const machine = new Machine();
    machine.cluster = await Cluster.start();
    const binary = redis ? findRedis() : undefined;
    try {
      if (binary) machine.redis = await RedisServer.start(binary);
    } catch (error) {
      await machine.stop();
      throw error;
    }
    return machine;
  }

  async describe() {
    const [{ model }] = cpus();
    return {
      machine: `${cpus().length} × ${model}, ${Math.round(totalmem() / 2 ** 30)} GiB`,
      node: process.version,
      postgres: await this.cluster.version(),
      redis: this.redis !== undefined,
    };
  }

  async stop() {
    await this.redis?.stop();
    await this.cluster.stop();
  }
}
