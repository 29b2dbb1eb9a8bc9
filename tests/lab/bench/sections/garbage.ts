// Bytes that the JavaScript engine allocates for each request, which its collector has to find again. The engine counts them
// itself, from one collection to the next.

import { buildDatabase } from '../database.ts';
import { getDataLoads, type Load, responseTo } from '../loads.ts';
import { startOurs } from '../ours.ts';
import type { Process } from '../process.ts';
import { atMost, type Section } from '../report.ts';
import { drive } from '../wrk.ts';

/** Has the engine write a line on stderr for each collection, with what was allocated since the last. */
const LOG_COLLECTIONS = { BUN_JSC_logGC: '1' };
const ALLOCATED = /bytes allocated this cycle: (\d+)/g;
const WARMUP_S = 3;
const KB_MAX = 7.5;

export const garbage: Section = async ({ roundS }) => {
  const { path, keys } = await buildDatabase(1000);
  const [key = ''] = keys;
  await using ours = await startOurs(path, LOG_COLLECTIONS);
  const targets = [];
  for (const [name, load] of Object.entries(getDataLoads(key))) {
    targets.push(atMost(`garbage of a call over ${name}`, await allocatedKb(ours, load, roundS), KB_MAX, ' KB'));
  }
  return { rows: [], targets };
};

async function allocatedKb(server: Process, load: Load, seconds: number): Promise<number> {
  await responseTo(server, load);
  await drive(server, load, WARMUP_S);
  const before = server.errorText().length;
  const { requests } = await drive(server, load, seconds);
  server.emptyLog();
  const lines = server.errorText().slice(before).matchAll(ALLOCATED);
  return lines.reduce((sum, [, bytes]) => sum + Number(bytes), 0) / requests / 1024;
}
