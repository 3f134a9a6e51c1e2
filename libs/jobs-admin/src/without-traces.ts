import type { HttpAdapterHost } from "@nestjs/core";

/** What is answered here is kept by nobody on its way, and taken for nothing else than it is. */
export function withoutTraces(adapter: HttpAdapterHost["httpAdapter"], response: unknown): void {
  adapter.setHeader(response, "cache-control", "no-store");
  adapter.setHeader(response, "x-content-type-options", "nosniff");
}
