// What verification asks of the database and what memory answers, as the server itself counts it at debug level.

import { buildDatabase } from '../database.ts';
import { manyKeys } from '../loads.ts';
import { startOurs } from '../ours.ts';
import { atLeast, atMost, type Section } from '../report.ts';
import { drive } from '../wrk.ts';

interface Counts {
  readonly hits: number;
  readonly refusedHits: number;
  readonly reads: number;
  readonly storeReads: number;
  readonly storeWrites: number;
}

/** Few, so that reading each for the first time doesn't show even on a slow machine. */
const KEYS = 10;

export const counters: Section = async ({ roundS }) => {
  const { path, keys } = await buildDatabase(KEYS);
  await using ours = await startOurs(path, { LOG_LEVEL: 'debug' });
  const { requests } = await drive(ours, manyKeys(keys), roundS);
  const { hits, storeReads, storeWrites } = lastCounts(await ours.stop());
  return {
    rows: [],
    targets: [
      atLeast(`verifications of ${KEYS} keys answered from memory, part of all`, hits / requests, 0.99),
      perVerification('database reads, the change feed included', storeReads, requests),
      perVerification('database writes, lastUsedAt included', storeWrites, requests),
    ],
  };
};

function perVerification(what: string, count: number, requests: number) {
  const found = `${count} for ${requests.toLocaleString('en')} verifications`;
  return { ...atMost(`${what}, a verification`, count / requests, 0.01), found };
}

function lastCounts(log: string): Counts {
  const line = log.split('\n').findLast((text) => text.includes('"event":"counts"'));
  if (line === undefined) throw new Error('the server logged no counts');
  return JSON.parse(line) as Counts;
}
