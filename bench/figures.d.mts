export interface Figure {
  title: string;
  better: "more" | "less";
  format: (value: number) => string;
}
export const FIGURES: Record<string, Figure>;
