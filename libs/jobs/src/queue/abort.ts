// A signal may end many waits, that of an app all of them. Node warns of a leak when it has more than ten listeners.

const waits = new WeakMap<AbortSignal, Waits>();

interface Waits {
  readonly ends: Set<() => void>;
  readonly abort: () => void;
}

/** Calls `end` when the signal aborts, unless what it answers is called before. However many wait, a signal has one listener. */
export function onAbort(signal: AbortSignal, end: () => void): () => void {
  const { ends, abort } = waits.get(signal) ?? hear(signal);
  ends.add(end);
  return () => {
    if (!ends.delete(end) || ends.size > 0) return;
    waits.delete(signal);
    signal.removeEventListener("abort", abort);
  };
}

function hear(signal: AbortSignal): Waits {
  const ends = new Set<() => void>();
  const abort = () => {
    for (const end of ends) end();
  };
  const heard = { ends, abort };
  waits.set(signal, heard);
  signal.addEventListener("abort", abort, { once: true });
  return heard;
}
