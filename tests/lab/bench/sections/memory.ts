// Resident memory after a hundred thousand and after a million requests.

import { buildDatabase } from '../database.ts';
import { type Load, responseTo, restGetData } from '../loads.ts';
import { startBare, startOurs } from '../ours.ts';
import type { Process } from '../process.ts';
import { atMost, type Section } from '../report.ts';
import { drive } from '../wrk.ts';

const EARLY = 100_000;
const LATE = 1_000_000;
/** Time for the collector to run, and for the log to be written. */
const SETTLE_MS = 3000;
/** Growth up to this counts as flat: it leaves room for where the collector happens to be. */
const GROWTH_MB_MAX = 10;

export const memory: Section = async () => {
  const { path, keys } = await buildDatabase(1000);
  const load = restGetData(keys[0] ?? '');
  await using ours = await startOurs(path);
  await using bare = await startBare(await responseTo(ours, load));
  const early = await residentAfter(EARLY, ours, load);
  const late = await residentAfter(LATE - EARLY, ours, load);
  const bareLate = await residentAfter(LATE, bare, load);
  return {
    rows: [],
    targets: [
      atMost('memory after a million requests, above the bare server', late - bareLate, 30, ' MB'),
      atMost('memory growth from 100,000 requests to a million', late - early, GROWTH_MB_MAX, ' MB'),
    ],
  };
};

async function residentAfter(requests: number, server: Process, load: Load): Promise<number> {
  for (let done = 0; done < requests; server.emptyLog()) done += (await drive(server, load, 1)).requests;
  await Bun.sleep(SETTLE_MS);
  return server.residentMb();
}
