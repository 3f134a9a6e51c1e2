/** A job as our insert takes it, that asks for nothing of its own: due at once, without a key. */
export const newJob = (id, { queue, lane, kind, priority = 0 }, payload) => ({
  id,
  queue,
  lane,
  kind,
  priority,
  delayMs: 0,
  at: null,
  attempts: null,
  timeoutMs: null,
  key: null,
  payload,
});
