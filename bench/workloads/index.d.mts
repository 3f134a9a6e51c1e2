export interface Size {
  jobs?: number;
  [name: string]: unknown;
}
export interface Workload {
  name: string;
  title: string;
  peers: readonly string[];
  /** Why peers that somebody would use instead do not take part. */
  leftOut?: string;
  rounds?: number;
  awaited?: boolean;
  share?: Record<string, number>;
  instead?: Record<string, Size>;
  seed?: { what: string; count: number };
  full: Size;
  quick?: Size;
}
export const WORKLOADS: readonly Workload[];
export function workloadsFor(kind: {
  quick: boolean;
  gate?: boolean;
}): (Workload & { size: Size })[];
export function sizeOf(
  workload: Pick<Workload, "share" | "instead"> & { size: Size },
  peer: string,
): Size;
