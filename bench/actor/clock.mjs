// Milliseconds of the machine's monotonic clock: the same in all its processes.
const offset = Number(process.hrtime.bigint()) / 1e6 - performance.now();

export const now = () => performance.now() + offset;
