// One run of wrk against one server.

import { join } from 'node:path';
import { type Load, loadArguments } from './loads.ts';
import type { Process } from './process.ts';

export const CONNECTIONS = 32;
/** On one core wrk leaves the others to the server, and keeps up with any server here. */
const THREADS = 1;
const SCRIPT = join(import.meta.dir, 'load.lua');

export type Run = Awaited<ReturnType<typeof drive>>;

export const isWrkThere = (): boolean => Bun.which('wrk') !== null;

/** Sends `load` for a number of whole seconds. Throws when connections failed, or no response came. */
export async function drive(server: Process, load: Load, seconds: number) {
  const options = [`-t${THREADS}`, `-c${CONNECTIONS}`, `-d${seconds}s`, '-s', SCRIPT, server.url + load.path];
  const wrk = Bun.spawn(['wrk', ...options, '--', ...loadArguments(load)], { stdout: 'pipe', stderr: 'pipe' });
  const [output, errors] = await Promise.all([textOf(wrk.stdout), textOf(wrk.stderr), wrk.exited]);
  const line = output.trim().split('\n').at(-1) ?? '';
  if (!line.startsWith('{')) throw new Error(`wrk against ${server.name} failed: ${errors}${output}`);
  const { requests, durationUs, refused, lost, p50Us, p99Us } = JSON.parse(line) as Record<string, number>;
  if (!requests || !durationUs || lost) throw new Error(`wrk against ${server.name} lost connections: ${line}`);
  return {
    requests,
    perSecond: (requests / durationUs) * 1e6,
    p50Ms: (p50Us ?? 0) / 1000,
    p99Ms: (p99Us ?? 0) / 1000,
    /** Responses whose status is no success. */
    refused: refused ?? 0,
  };
}

const textOf = (stream: ReadableStream<Uint8Array>) => new Response(stream).text();
