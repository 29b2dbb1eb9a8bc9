// Counters, gauges and histograms, and the text that a scraper reads (Prometheus exposition format 0.0.4).

import type { Awaitable } from '../lib/result.ts';

/** Values of a family's label names, in their order. All of them come from bounded sets. */
type LabelValues = readonly string[];

export interface Counter {
  value: number;
}

export class Histogram {
  sum = 0;
  /** Observations in each bucket, not cumulative; the last one has no upper bound. */
  readonly counts: number[];

  constructor(readonly bounds: readonly number[]) {
    this.counts = new Array(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.bounds.length && value > (this.bounds[bucket] as number)) bucket += 1;
    (this.counts[bucket] as number) += 1;
    this.sum += value;
  }
}

export interface Registry {
  /** Returns the look-up of a label set's counter, made with its first use. */
  counter(name: string, help: string, labels: readonly string[]): (...values: LabelValues) => Counter;
  histogram(
    name: string,
    help: string,
    labels: readonly string[],
    bounds: readonly number[],
  ): (...values: LabelValues) => Histogram;
  /** `read`, called when the text is made, gives label sets and values; it omits those whose value is not known. */
  gauge(name: string, help: string, labels: readonly string[], read: () => Awaitable<readonly GaugeValue[]>): void;
  /** One value without labels; a gauge unless given. */
  single(name: string, help: string, read: () => number, type?: 'counter' | 'gauge'): void;
  text(): Promise<string>;
}

export type GaugeValue = readonly [labels: LabelValues, value: number];

interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  samples(): Awaitable<readonly string[]>;
}

export function createRegistry(): Registry {
  const families: Family[] = [];

  function members<T>(labels: readonly string[], make: () => T) {
    const all = new Map<string, { readonly labels: string; readonly member: T }>();
    const of = (...values: LabelValues): T => {
      const text = labelText(labels, values);
      let found = all.get(text);
      if (found === undefined) {
        found = { labels: text, member: make() };
        all.set(text, found);
      }
      return found.member;
    };
    return { of, all: () => [...all.values()] };
  }

  return {
    counter(name, help, labels) {
      const { of, all } = members<Counter>(labels, () => ({ value: 0 }));
      const samples = () => all().map(({ labels: shown, member }) => sample(name, shown, member.value));
      families.push({ name, help, type: 'counter', samples });
      return of;
    },

    histogram(name, help, labels, bounds) {
      const { of, all } = members(labels, () => new Histogram(bounds));
      const samples = () => all().flatMap(({ labels: shown, member }) => histogramSamples(name, shown, member));
      families.push({ name, help, type: 'histogram', samples });
      return of;
    },

    gauge(name, help, labels, read) {
      const samples = async () =>
        (await read()).map(([values, value]) => sample(name, labelText(labels, values), value));
      families.push({ name, help, type: 'gauge', samples });
    },

    single(name, help, read, type = 'gauge') {
      families.push({ name, help, type, samples: () => [sample(name, '', read())] });
    },

    async text() {
      const parts = await Promise.all(
        families.map(async ({ name, help, type, samples }) => [
          `# HELP ${name} ${help}`,
          `# TYPE ${name} ${type}`,
          ...(await samples()),
        ]),
      );
      return `${parts.flat().join('\n')}\n`;
    },
  };
}

/** `a="1",b="2"`. A label with an empty value means the same as none, and is left out. */
const labelText = (names: readonly string[], values: LabelValues): string =>
  names.flatMap((name, at) => (values[at] ? [`${name}="${escaped(values[at])}"`] : [])).join(',');

const escaped = (value: string) => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

const sample = (name: string, labels: string, value: number) => `${name}${labels === '' ? '' : `{${labels}}`} ${value}`;

function histogramSamples(name: string, labels: string, { bounds, counts, sum }: Histogram): string[] {
  const and = labels === '' ? '' : `${labels},`;
  let count = 0;
  const buckets = counts.map((observed, at) => {
    count += observed;
    return sample(`${name}_bucket`, `${and}le="${bounds[at] ?? '+Inf'}"`, count);
  });
  return [...buckets, sample(`${name}_sum`, labels, sum), sample(`${name}_count`, labels, count)];
}
