export interface Row {
  workload: string;
  figure: string;
  against?: { called: string; peers?: string[]; workload?: string };
  atLeast?: number;
  atMost?: number;
}
export const ROWS: readonly Row[];
