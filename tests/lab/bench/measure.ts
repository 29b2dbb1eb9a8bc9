// Measures several servers against each other: warm-up, interleaved rounds, medians.

import type { Load } from './loads.ts';
import type { Plan } from './plan.ts';
import type { Process } from './process.ts';
import { drive, type Run } from './wrk.ts';

export interface Subject {
  readonly server: Process;
  readonly load: Load;
  /** Its requests are meant to be refused. */
  readonly refused?: boolean;
}

/** A run, and what its server computed for each request. */
export interface MeasuredRun extends Run {
  readonly cpuUs: number;
}

export interface Measured {
  /** One per round. */
  readonly runs: readonly MeasuredRun[];
  readonly warmupRequests: number;
  /** Resident memory after the last round. */
  readonly residentMb: number;
}

/** Warms every subject up, then measures all of them once per round. Throws when responses had the wrong status. */
export async function measure<Name extends string>(
  subjects: Readonly<Record<Name, Subject>>,
  plan: Plan,
): Promise<Record<Name, Measured>> {
  const entries = Object.entries<Subject>(subjects);
  const warmups = new Map<string, number>();
  for (const [name, subject] of entries) warmups.set(name, await warmUp(subject, plan));
  const runs = new Map<string, MeasuredRun[]>(entries.map(([name]) => [name, []]));
  for (let round = 0; round < plan.rounds; round += 1) {
    for (const [name, subject] of entries) runs.get(name)?.push(await driven(subject, plan.roundS));
  }
  const measured = entries.map(([name, { server }]): [string, Measured] => [
    name,
    { runs: runs.get(name) ?? [], warmupRequests: warmups.get(name) ?? 0, residentMb: server.residentMb() },
  ]);
  return Object.fromEntries(measured) as Record<Name, Measured>; // the same names
}

/** Of other processes of the same servers too: all rounds, those of `a` first. */
export const joined = <Name extends string>(
  a: Readonly<Record<Name, Measured>>,
  b: Readonly<Record<Name, Measured>>,
): Record<Name, Measured> =>
  Object.fromEntries(
    Object.entries<Measured>(a).map(([name, measured]): [string, Measured] => {
      const other = b[name as Name];
      return [name, { ...measured, runs: [...measured.runs, ...other.runs] }];
    }),
  ) as Record<Name, Measured>; // the same names

async function warmUp(subject: Subject, { warmupRequests, warmupSMax }: Plan): Promise<number> {
  let requests = 0;
  for (let seconds = 0; seconds < warmupSMax && requests < warmupRequests; seconds += 1) {
    requests += (await driven(subject, 1)).requests;
  }
  return requests;
}

async function driven({ server, load, refused = false }: Subject, seconds: number): Promise<MeasuredRun> {
  const beforeUs = server.cpuUs();
  const run = await drive(server, load, seconds);
  const cpuUs = (server.cpuUs() - beforeUs) / run.requests;
  server.emptyLog();
  const unexpected = refused ? run.requests - run.refused : run.refused;
  if (unexpected > 0)
    throw new Error(`${server.name}: ${unexpected} of ${run.requests} responses had the wrong status`);
  return { ...run, cpuUs };
}

export const perSecond = (run: Run) => run.perSecond;
export const p50Ms = (run: Run) => run.p50Ms;
export const p99Ms = (run: Run) => run.p99Ms;
export const cpuUs = (run: MeasuredRun) => run.cpuUs;

export const figure = ({ runs }: Pick<Measured, 'runs'>, of: (run: MeasuredRun) => number): number =>
  median(runs.map(of));

/** The median of the rounds' ratios: the two sides of each were measured side by side. */
export function ratio(a: Pick<Measured, 'runs'>, b: Pick<Measured, 'runs'>, of: (run: MeasuredRun) => number): number {
  return median(
    a.runs.flatMap((run, round) => {
      const other = b.runs[round];
      return other === undefined ? [] : [of(run) / of(other)];
    }),
  );
}

/** Returns how many milliseconds a run takes. */
export async function msOf(run: () => Promise<unknown>): Promise<number> {
  const startedAtMs = performance.now();
  await run();
  return performance.now() - startedAtMs;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? Number.NaN;
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? at(middle) : (at(middle - 1) + at(middle)) / 2;
}
