// As the database grows, to ten million keys on disk: its file, the server's memory and start, and one call at a time of
// each kind.

import { statSync } from 'node:fs';
import { buildDatabase, KEYS_PER_USER, shuffled, userName, userToken } from '../database.ts';
import { createKey, type Load, listKeys, manyKeys, restGetData } from '../loads.ts';
import { median } from '../measure.ts';
import { startOurs } from '../ours.ts';
import type { Process } from '../process.ts';
import { markdown, type Section } from '../report.ts';
import { drive } from '../wrk.ts';

const SIZES = [1000, 100_000, 1_000_000, 10_000_000];
const IN_USE = 1000;
/** Calls of a kind, one after the other. */
const CALLS = 200;
const USERS = IN_USE / KEYS_PER_USER;
const HEAD = ['Keys', 'File MB', 'Start ms', 'RSS MB', 'Known keys/s', 'First use ms', 'List ms', 'Create ms'];

export const growing: Section = async ({ starts, roundS }) => {
  const rows: string[][] = [];
  for (const size of SIZES) {
    const { path, keys } = await buildDatabase(IN_USE, size - IN_USE);
    const startsMs: number[] = [];
    for (let round = 0; round < starts; round += 1) {
      const startedAtMs = performance.now();
      await using _server = await startOurs(path);
      startsMs.push(performance.now() - startedAtMs);
    }
    await using server = await startOurs(path);
    const tokens = await Promise.all(Array.from({ length: USERS }, (_, index) => userToken(userName(index))));
    const asUsers = (load: Load) =>
      Array.from({ length: CALLS }, (_, index) => withToken(load, tokens[index % USERS] ?? ''));
    const firstUseMs = await callMs(server, shuffled(keys).slice(0, CALLS).map(restGetData));
    const known = await drive(server, manyKeys(keys), roundS);
    const listMs = await callMs(server, asUsers(listKeys(tokens)));
    const createMs = await callMs(server, asUsers(createKey(tokens)));
    rows.push([
      size.toLocaleString('en'),
      (statSync(path).size / 1e6).toFixed(1),
      median(startsMs).toFixed(0),
      server.residentMb().toFixed(0),
      Math.round(known.perSecond).toLocaleString('en'),
      firstUseMs.toFixed(2),
      listMs.toFixed(2),
      createMs.toFixed(2),
    ]);
  }
  return { rows: [], targets: [], tables: [markdown([HEAD, HEAD.map(() => '---:'), ...rows])] };
};

const withToken = (load: Load, token: string): Load => ({
  ...load,
  headers: { ...load.headers, Authorization: `Bearer ${token}` },
});

/** The median of calls one after the other, client and all. Throws for a call that failed. */
async function callMs(server: Process, loads: readonly Load[]): Promise<number> {
  const times: number[] = [];
  for (const { path, headers, body } of loads) {
    const startedAtMs = performance.now();
    const response = await fetch(server.url + path, { method: 'POST', headers: { ...headers }, body });
    const text = await response.text();
    times.push(performance.now() - startedAtMs);
    if (!response.ok) throw new Error(`${path} is ${response.status}: ${text}`);
  }
  return median(times);
}
