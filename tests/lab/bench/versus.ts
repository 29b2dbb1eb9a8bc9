// `bun tests/lab/bench/versus.ts <checkout> [--rounds 10]`: this server beside that of another checkout, which has its
// packages. Each round measures both in turn, so that what else the machine does slows down both; processor time says more
// than rates do on a busy one.

import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { temporaryFolder } from '../../support/folder.ts';
import { waitFor } from '../../support/wait-for.ts';
import { fillDatabase, shuffled, userTokens } from './database.ts';
import { createKey, type Load, listKeys, manyKeys, mcp2025GetData, mcp2026GetData, restGetData } from './loads.ts';
import { cpuUs, figure, measure, median, p99Ms, perSecond, ratio } from './measure.ts';
import { startOurs } from './ours.ts';
import { QUICK } from './plan.ts';
import type { Process } from './process.ts';
import { machineLine, markdown } from './report.ts';
import { drive } from './wrk.ts';

const ROOT = join(import.meta.dir, '../../..');
const KEYS = 200_000;
/** More than wrk sends in a second, so that it sends none of them twice. */
const SLICE = 60_000;
const USERS = 2000;

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '10' } },
  allowPositionals: true,
});
const [other] = positionals;
const rounds = Number(values.rounds);
if (other === undefined || !(rounds > 0)) throw new Error('usage: versus.ts <checkout> [--rounds <n>]');

/** A server of that checkout on a database that it has made, and keys that are in it. */
async function startFrom(root: string): Promise<{ server: Process; keys: readonly string[] }> {
  const path = join(temporaryFolder(), 'keys.db');
  const command = [process.execPath, join(root, 'src/main.ts')];
  const start = () => startOurs(path, {}, command);
  const first = await start();
  await waitFor(async () => (await fetch(`${first.url}/mcp/health`)).ok);
  await first.stop();
  const { keys } = await fillDatabase(path, KEYS);
  return { server: await start(), keys };
}

const [before, now] = [await startFrom(resolve(other)), await startFrom(ROOT)];
const tokens = await userTokens(USERS);
const LOADS: Readonly<Record<string, (key: string) => Load>> = {
  'get_data over REST': restGetData,
  'get_data, MCP 2025-11-25': mcp2025GetData,
  'get_data, MCP 2026-07-28': mcp2026GetData,
  list_api_keys: () => listKeys(tokens),
  create_api_key: () => createKey(tokens),
};
const plan = { ...QUICK, rounds, warmupRequests: 100_000, warmupSMax: 5 };
const rows: string[][] = [];
for (const [name, loadOf] of Object.entries(LOADS)) {
  const measured = await measure(
    {
      before: { server: before.server, load: loadOf(before.keys[0] ?? '') },
      now: { server: now.server, load: loadOf(now.keys[0] ?? '') },
    },
    plan,
  );
  const of = (unit: (run: (typeof measured.now.runs)[number]) => number, digits: number) => {
    const figures = [figure(measured.before, unit), figure(measured.now, unit)].map((value) => value.toFixed(digits));
    return [...figures, ratio(measured.now, measured.before, unit).toFixed(2)];
  };
  rows.push([name, ...of(cpuUs, 1), ...of(perSecond, 0), ...of(p99Ms, 1)]);
}

/** Processor time of first uses, each round of others. */
const firstUs: number[][] = [];
const unseen = [before, now].map(({ server, keys }) => ({ server, keys: shuffled(keys.slice(1)), used: 0 }));
while (firstUs.length < rounds && unseen.every(({ keys, used }) => used + SLICE < keys.length)) {
  const round: number[] = [];
  for (const one of unseen) {
    const beforeUs = one.server.cpuUs();
    const { requests } = await drive(one.server, manyKeys(one.keys.slice(one.used, one.used + SLICE)), 1);
    round.push((one.server.cpuUs() - beforeUs) / requests);
    one.used += requests;
  }
  firstUs.push(round);
}
const us = [0, 1].map((at) => median(firstUs.map((round) => round[at] ?? Number.NaN)));
const firstRatio = median(firstUs.map(([was = 0, is = 0]) => is / was));
rows.push([
  'first use of a key, over REST',
  ...us.map((value) => value.toFixed(1)),
  firstRatio.toFixed(2),
  ...Array(6).fill(''),
]);
for (const { server } of [before, now]) await server.stop();
const heads = [
  '',
  'CPU in µs: before',
  'now',
  'ratio',
  'per second: before',
  'now',
  'ratio',
  'p99 in ms: before',
  'now',
  'ratio',
];
console.log(`${machineLine()}\n\n${markdown(heads, rows)}`);
process.exit(0);
