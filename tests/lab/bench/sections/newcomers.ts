// Honest keys that the server has not seen yet, from the same address as a flood of unknown ones: do they get through?

import { buildDatabase } from '../database.ts';
import { type Load, restGetData, unknownKeys } from '../loads.ts';
import { startOurs } from '../ours.ts';
import type { Process } from '../process.ts';
import type { Section } from '../report.ts';
import { drive } from '../wrk.ts';

const NEWCOMERS = 10;
const FLOOD_S = 8; // longer than all the tries take
/** After this the flood has used up what its address had saved. */
const FLOOD_BEFORE_MS = 2000;
/** Each tries this often in all, coming back when told to. */
const TRIES_MAX = 5;

export const newcomers: Section = async () => {
  const { path, keys } = await buildDatabase(NEWCOMERS);
  await using ours = await startOurs(path);
  const flood = drive(ours, unknownKeys, FLOOD_S);
  await Bun.sleep(FLOOD_BEFORE_MS);
  const waits = await Promise.all(keys.map((key) => msUntilServed(ours, restGetData(key))));
  await flood;
  const served = waits.filter((ms) => ms !== null);
  const found = `${served.length} of ${NEWCOMERS}, the slowest after ${(Math.max(0, ...served) / 1000).toFixed(1)} s`;
  const text = 'honest keys not seen before get through beside a flood from their address';
  return { rows: [], targets: [{ text, met: served.length === NEWCOMERS, found }] };
};

/** Milliseconds until a caller that obeys Retry-After is served; null: it gave up. */
async function msUntilServed(server: Process, { path, headers, body }: Load): Promise<number | null> {
  const startedAtMs = performance.now();
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const response = await fetch(server.url + path, { method: 'POST', headers, body });
    await response.arrayBuffer();
    if (response.ok) return performance.now() - startedAtMs;
    await Bun.sleep(Number(response.headers.get('retry-after') ?? 1) * 1000);
  }
  return null;
}
