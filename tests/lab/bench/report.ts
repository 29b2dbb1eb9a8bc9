// What the benchmark found, as Markdown.

import { cpus, loadavg, type as systemName } from 'node:os';
import { cpuUs, figure, type Measured, p50Ms, p99Ms, perSecond, ratio } from './measure.ts';
import type { Plan } from './plan.ts';
import { CONNECTIONS } from './wrk.ts';

export interface Row {
  readonly name: string;
  readonly measured: Measured;
  /** What it is compared with: a server that gives the same response, and does nothing else. */
  readonly bare?: Measured;
}

/** A goal for this server. */
export interface Target {
  readonly text: string;
  readonly met: boolean;
  readonly found: string;
}

export interface Findings {
  readonly rows: readonly Row[];
  readonly targets: readonly Target[];
  /** What has columns of its own, as Markdown. */
  readonly tables?: readonly string[];
}

/** One part of the benchmark. Starts what it needs, and stops it. */
export type Section = (plan: Plan) => Promise<Findings>;

/** Taken before the benchmark starts: what else the machine was doing. */
export function machineLine(): string {
  const processors = cpus();
  const load = loadavg().map((value) => value.toFixed(1));
  const model = processors[0]?.model.trim() ?? 'unknown processor';
  return `${processors.length} × ${model}, ${systemName()}, Bun ${Bun.version}, load average before ${load.join(' ')}`;
}

export function planLine(plan: Plan): string {
  const { rounds, roundS, warmupRequests, warmupSMax } = plan;
  const warmup = `${warmupRequests.toLocaleString('en')} requests or ${warmupSMax} s of warm-up each`;
  return `wrk, ${CONNECTIONS} connections, ${rounds} interleaved rounds of ${roundS} s, medians, ${warmup}`;
}

const HEAD = ['Case', 'Requests/s', '× bare', 'p50 ms', 'p99 ms', 'p99 × bare', 'CPU µs', 'RSS MB', 'Warm-up'];

export const LEGEND =
  '× bare: against the bare row above it. CPU µs: of the server, for each request; the steadiest figure on a busy machine. RSS after the last round. Warm-up in requests.';

export function table(rows: readonly Row[]): string {
  const cells = rows.map(({ name, measured, bare }) => [
    name,
    Math.round(figure(measured, perSecond)).toLocaleString('en'),
    bare ? ratio(measured, bare, perSecond).toFixed(2) : '',
    figure(measured, p50Ms).toFixed(2),
    figure(measured, p99Ms).toFixed(2),
    bare ? ratio(measured, bare, p99Ms).toFixed(2) : '',
    figure(measured, cpuUs).toFixed(1),
    measured.residentMb.toFixed(0),
    measured.warmupRequests.toLocaleString('en'),
  ]);
  return markdown(HEAD, cells);
}

export const verdict = (targets: readonly Target[]): string =>
  markdown(
    ['Target', 'Found', 'Met'],
    targets.map(({ text, found, met }) => [text, found, met ? 'yes' : '**no**']),
  );

/** A table of figures: all but the first column are aligned to the right. */
export const markdown = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map((_, column) => (column === 0 ? '---' : '---:')), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');

export const atLeast = (text: string, value: number, limit: number): Target => ({
  text: `${text}: at least ${limit}`,
  met: value >= limit,
  found: value.toFixed(2),
});

export const atMost = (text: string, value: number, limit: number, unit = ''): Target => ({
  text: `${text}: at most ${limit}${unit}`,
  met: value <= limit,
  found: `${value.toFixed(2)}${unit}`,
});
