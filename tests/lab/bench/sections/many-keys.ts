// Many different keys, each used once: what the first use of a key costs beside the next one, and the memory that the server
// then has.

import { buildDatabase, shuffled } from '../database.ts';
import { manyKeys } from '../loads.ts';
import { startOurs } from '../ours.ts';
import type { Process } from '../process.ts';
import { atMost, type Section } from '../report.ts';
import { drive } from '../wrk.ts';

const EARLY = 100_000;
/** Few enough for all of them to stay in memory (src/keys/key-cache.ts). */
const KNOWN = 50_000;
const WARMUP = 10_000;
/** More than wrk sends in a second, so that it sends none of them twice. */
const SLICE = 60_000;
/** Time for the last uses to be written, and for a full collection, which comes up to 15 s after the last request. */
const SETTLE_MS = 20_000;

export const manyKeysInUse: Section = async ({ keysUsed }) => {
  const { path, keys: made } = await buildDatabase(keysUsed);
  const keys = shuffled(made);
  await using ours = await startOurs(path);
  await useEach(ours, keys.slice(0, WARMUP));
  const firstUs = await useEach(ours, keys.slice(WARMUP, KNOWN));
  const nextUs = await useEach(ours, keys.slice(WARMUP, KNOWN));
  await useEach(ours, keys.slice(KNOWN, EARLY));
  const earlyMb = await settledMb(ours);
  await useEach(ours, keys.slice(EARLY));
  const growthMb = (await settledMb(ours)) - earlyMb;
  const times = `(${firstUs.toFixed(0)} µs, ${nextUs.toFixed(0)} µs)`;
  return {
    rows: [],
    targets: [
      atMost(`first use of a key, in processor time of the next one ${times}`, firstUs / nextUs, 4),
      atMost('memory after 100,000 different keys were used', earlyMb, 170, ' MB'),
      ...(keysUsed > EARLY ? [atMost(`memory growth from then to ${keysUsed} keys`, growthMb, 130, ' MB')] : []),
    ],
  };
};

/** Sends about so many keys, each about once, and returns the server's processor time for each. */
async function useEach(server: Process, keys: readonly string[]): Promise<number> {
  const beforeUs = server.cpuUs();
  let sent = 0;
  while (sent < keys.length) {
    const { requests, refused } = await drive(server, manyKeys(keys.slice(sent, sent + SLICE)), 1);
    if (refused > 0) throw new Error(`${refused} of ${requests} keys were refused`);
    server.emptyLog();
    sent += requests;
  }
  return (server.cpuUs() - beforeUs) / sent;
}

async function settledMb(server: Process): Promise<number> {
  await Bun.sleep(SETTLE_MS);
  return server.residentMb();
}
