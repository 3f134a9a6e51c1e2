const TEXT = "x".repeat(40);

/** About 100 bytes of JSON; of `keys` tenants in turn, where there are any. */
export const payload = (n, keys = 0) => ({
  n,
  to: "ada@example.com",
  subject: "hello",
  text: TEXT,
  ...(keys > 0 ? { tenant: `t${n % keys}` } : {}),
});

export const payloads = (first, count, keys) =>
  Array.from({ length: count }, (_, index) => payload(first + index, keys));

/** Those of a tenant that has more than all the others together; nobody counts them. */
export const hotPayloads = (count) =>
  Array.from({ length: count }, () => ({ ...payload(-1), tenant: "hot" }));
