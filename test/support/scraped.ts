/** A line of a scrape. */
export interface Series {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** What was scraped, in Prometheus' text format. */
export class Scraped {
  /** By metric. */
  readonly types = new Map<string, string>();
  readonly helps = new Map<string, string>();
  readonly series: Series[] = [];

  constructor(readonly text: string) {
    for (const line of text.split("\n")) {
      const [, word, about, rest] = /^# (TYPE|HELP) (\w+) (.*)$/.exec(line) ?? [];
      if (word) (word === "TYPE" ? this.types : this.helps).set(about!, rest!);
      if (line === "" || line.startsWith("#")) continue;
      const found = LINE.exec(line);
      if (!found) throw new Error(`no line of metrics: ${line}`);
      const [, name, labels = "", value] = found;
      const pairs = [...labels.matchAll(LABEL)].map(([, label, text]) => [label!, text!]);
      this.series.push({ name: name!, labels: Object.fromEntries(pairs), value: Number(value) });
    }
  }

  /** Those of this name that have these labels, whatever else they have. */
  of(name: string, labels: Record<string, string> = {}): Series[] {
    const wanted = Object.entries(labels);
    return this.series.filter(
      (one) => one.name === name && wanted.every(([label, text]) => one.labels[label] === text),
    );
  }

  /** Of the only one; undefined when there is none. */
  value(name: string, labels: Record<string, string> = {}): number | undefined {
    const found = this.of(name, labels);
    if (found.length > 1) throw new Error(`${found.length} of ${name} ${JSON.stringify(labels)}`);
    return found[0]?.value;
  }
}
