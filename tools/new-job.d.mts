export interface PlainJob {
  id: string;
  queue: string;
  lane: number;
  kind: string;
  priority: number;
  delayMs: number;
  at: null;
  attempts: null;
  timeoutMs: null;
  key: null;
  payload: string;
}
export function newJob(
  id: string,
  address: { queue: string; lane: number; kind: string; priority?: number },
  payload: string,
): PlainJob;
