// The bodies of the jobs. Each job carries its number as `n`.

const FAILURES = 2;

export const HANDLERS = {
  noop:
    (ledger) =>
    ({ n }) => {
      ledger.ran(n);
    },
  "waits-1ms":
    (ledger) =>
    async ({ n }) => {
      ledger.ran(n);
      await new Promise((resolve) => setTimeout(resolve, 1));
    },
  "waits-5ms":
    (ledger) =>
    async ({ n }) => {
      if (n >= 0) ledger.ran(n);
      await new Promise((resolve) => setTimeout(resolve, 5));
    },
  "fails-twice":
    (ledger) =>
    ({ n }) => {
      if (ledger.ran(n) <= FAILURES) throw new Error(`job ${n} fails`);
    },
};
