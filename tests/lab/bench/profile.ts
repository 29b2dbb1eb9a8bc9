// `bun run bench --profile`: where the processor time of one request goes, in the bare server and in this one. Samples each
// process with perf (Linux), and looks at which code a sample is in and what called it.

import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';
import { buildDatabase } from './database.ts';
import { getDataLoads, type Load, responseTo } from './loads.ts';
import { startBare, startOurs } from './ours.ts';
import type { Plan } from './plan.ts';
import type { Process } from './process.ts';
import { markdown } from './report.ts';
import { drive } from './wrk.ts';

const SAMPLES_PER_S = 2000;
const PROFILE_S = 5;
/** perf's name for memory with code that the JavaScript engine has generated. */
const GENERATED = /\/perf-\d+\.map\b/;
const KERNEL = /\[kernel|\[guest\.kernel|\[vmlinux\]/;

const PARTS = ['kernel', 'native outside JavaScript', 'native called from JavaScript', 'JavaScript itself'] as const;
type Part = (typeof PARTS)[number];

export const isPerfThere = (): boolean => Bun.which('perf') !== null;

/** A table in Markdown, in microseconds of processor time for each request. */
export async function profileTable(plan: Plan): Promise<string> {
  const { path, keys } = await buildDatabase(1000);
  await using ours = await startOurs(path);
  const rows: string[][] = [];
  for (const [name, load] of Object.entries(getDataLoads(keys[0] ?? ''))) {
    await using bare = await startBare(await responseTo(ours, load));
    const columns = [];
    for (const server of [bare, ours]) columns.push(await profiled(server, load, plan));
    rows.push([`**${name}**`, ...columns.map((us) => PARTS.reduce((sum, part) => sum + us[part], 0).toFixed(1))]);
    for (const part of PARTS) rows.push([part, ...columns.map((us) => us[part].toFixed(1))]);
  }
  return markdown(['µs a request', 'bare', 'this server'], rows);
}

async function profiled(
  server: Process,
  load: Load,
  { warmupRequests, warmupSMax }: Plan,
): Promise<Record<Part, number>> {
  let warm = 0;
  for (let seconds = 0; seconds < warmupSMax && warm < warmupRequests; seconds += 1) {
    warm += (await drive(server, load, 1)).requests;
    server.emptyLog();
  }
  const file = join(temporaryFolder(), 'perf.data');
  const options = ['-e', 'cpu-clock', '-F', String(SAMPLES_PER_S), '-g', '-o', file, '-p', String(server.pid)];
  const perf = Bun.spawn(['perf', 'record', ...options, '--', 'sleep', String(PROFILE_S + 1)], {
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const beforeUs = server.cpuUs();
  const { requests } = await drive(server, load, PROFILE_S);
  const cpuUs = (server.cpuUs() - beforeUs) / requests;
  server.emptyLog();
  if ((await perf.exited) !== 0) throw new Error(`perf failed: ${await new Response(perf.stderr).text()}`);
  const script = Bun.spawn(['perf', 'script', '-i', file, '-F', 'ip,dso'], { stdout: 'pipe', stderr: 'ignore' });
  const counts = countParts(await new Response(script.stdout).text());
  const samples = PARTS.reduce((sum, part) => sum + counts[part], 0);
  if (samples === 0) throw new Error('perf took no samples');
  return mapParts((part) => (counts[part] / samples) * cpuUs);
}

/** `samples`: blocks of lines, one for each frame, the innermost first. */
export function countParts(samples: string): Record<Part, number> {
  const counts = mapParts(() => 0);
  for (const sample of samples.split('\n\n')) {
    const frames = sample.split('\n').filter((line) => line.trim() !== '');
    const [innermost] = frames;
    if (innermost !== undefined) counts[partOf(innermost, frames)] += 1;
  }
  return counts;
}

function partOf(innermost: string, frames: readonly string[]): Part {
  if (KERNEL.test(innermost)) return 'kernel';
  if (GENERATED.test(innermost)) return 'JavaScript itself';
  return frames.some((frame) => GENERATED.test(frame)) ? 'native called from JavaScript' : 'native outside JavaScript';
}

const mapParts = (of: (part: Part) => number) =>
  Object.fromEntries(PARTS.map((part) => [part, of(part)])) as Record<Part, number>;
