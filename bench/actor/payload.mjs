const TEXT = "x".repeat(40);

/** About 100 bytes of JSON. */
export const payload = (n) => ({ n, to: "ada@example.com", subject: "hello", text: TEXT });

export const payloads = (first, count) =>
  Array.from({ length: count }, (_, index) => payload(first + index));
