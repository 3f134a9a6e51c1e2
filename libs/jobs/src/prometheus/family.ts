import type { Metric } from "prom-client";

// Metrics of prom-client hash their labels whenever something is counted, and a histogram has no way to be given what
// was counted elsewhere. So we count for ourselves, and hand a registry what it asks of any metric.

/** Labels and a number; `metricName` where it is another one than that of the metric, as in histograms. */
export interface Sample {
  labels: Record<string, string | number>;
  value: number;
  metricName?: string;
}

/** How a cluster of processes adds it up, should prom-client be used so. */
export type Together = "sum" | "max";

/** A metric that reads its values when it is scraped. */
export class Family {
  /** What it is registered as. */
  readonly registered: string;

  constructor(
    /** prom-client takes `_total` away for OpenMetrics. */
    public name: string,
    readonly type: "counter" | "gauge" | "histogram",
    readonly help: string,
    private readonly read: () => Sample[] | Promise<Sample[]>,
    readonly aggregator: Together = "sum",
  ) {
    this.registered = name;
  }

  /** As prom-client asks its own. */
  async get() {
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: await this.read() };
  }

  /** The same with these labels in each of its samples. */
  labelled(labels: Sample["labels"]): Family {
    const read = async () =>
      (await this.read()).map((one) => ({ ...one, labels: { ...one.labels, ...labels } }));
    return new Family(this.name, this.type, this.help, read, this.aggregator);
  }

  /** Whoever resets a registry means what he has counted himself. */
  reset(): void {}

  /** As the registry wants to have it. */
  get metric(): Metric {
    return this as unknown as Metric;
  }
}
