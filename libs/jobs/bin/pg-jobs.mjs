#!/usr/bin/env node
// The first process of a container has no default action for them: it would go on. The server rolls back what has not been
// committed when it finds the connection gone.
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
])
  process.once(signal, () => process.exit(code));

const { main } = await import("../dist/cli/main.js");
process.exitCode = await main(process.argv.slice(2));
