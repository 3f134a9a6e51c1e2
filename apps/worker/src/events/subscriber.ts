import { Injectable } from "@nestjs/common";
import { setTimeout as sleep } from "node:timers/promises";

/** The subscriber does not take it. */
export class DeliveryRefusedError extends Error {
  override readonly name = "DeliveryRefusedError";
}

/**
 * Stands for another system: it refuses events whose name ends in `.refused`, and never answers to those that end
 * in `.hangs`.
 */
@Injectable()
export class Subscriber {
  async deliver(name: string, { signal }: { signal: AbortSignal }): Promise<{ status: number }> {
    if (name.endsWith(".refused"))
      throw new DeliveryRefusedError("the subscriber answered 503", {
        cause: new Error("overloaded"),
      });
    if (name.endsWith(".hangs")) await sleep(2 ** 31 - 1, undefined, { signal });
    return { status: 204 };
  }
}
