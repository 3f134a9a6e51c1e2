import type { Sample } from "./family.js";

/** What a histogram has counted for one set of labels. */
export class Buckets {
  readonly #counts: Float64Array;
  #count = 0;
  #sum = 0;

  constructor(
    /** The upper bounds, ascending. */
    private readonly bounds: readonly number[],
  ) {
    this.#counts = new Float64Array(bounds.length);
  }

  add(value: number): void {
    const { bounds } = this;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    if (at < bounds.length) this.#counts[at]!++;
    this.#count++;
    this.#sum += value;
  }

  /** None before the first value. */
  samples(name: string, labels: Sample["labels"]): Sample[] {
    if (this.#count === 0) return [];
    let below = 0;
    const metricName = `${name}_bucket`;
    return [
      ...this.bounds.map((le, at) => {
        below += this.#counts[at]!;
        return { metricName, labels: { le, ...labels }, value: below };
      }),
      { metricName, labels: { le: "+Inf", ...labels }, value: this.#count },
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: this.#count },
    ];
  }
}
