// `bun tests/lab/bench/far.ts`: what a replica saves a server whose primary is 50 ms away: first uses of keys, and guesses;
// and what it doesn't: uses of keys in memory, and the first use after a quiet minute, for which either asks the primary.
// src/store/README.md has the figures.

import { callOver } from '../../support/client.ts';
import { startProxy } from '../../support/proxy.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { STORE_MODES, storeEnvOn } from '../../support/store-mode.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { addKeys, newKey } from './database.ts';
import { median } from './measure.ts';
import { machineLine, markdown } from './report.ts';

const AWAY_MS = 50;
/** First used one after the other, by each server, and at once. */
const ALONE = 100;
const AT_ONCE = 5000;
const CONNECTIONS = 32;
const GUESSES_MS = 5000;
/** After a minute without verifications polls stop, and what they proved ends with the bound. */
const QUIET_MS = 80_000;
/** Long enough that no call is refused because a busy machine holds a poll up. */
const LAG_MAX_MS = '10000';

/** Calls with these keys from so many connections, each of an address of its own; the statuses and times they take. */
async function callWith(server: ServerProcess, connections: number, next: () => string | undefined) {
  const calls: { status: number; ms: number }[] = [];
  const caller = async (_: unknown, nth: number) => {
    for (let key = next(); key !== undefined; key = next()) {
      const startedMs = performance.now();
      const headers = { 'x-api-key': key, 'x-forwarded-for': `192.0.2.${nth}` };
      const { status } = await callOver(server.url, 'get_data', {}, headers);
      calls.push({ status, ms: performance.now() - startedMs });
    }
  };
  await Promise.all(Array.from({ length: connections }, caller));
  return calls;
}

function oneByOne(keys: readonly string[]): () => string | undefined {
  let at = 0;
  return () => {
    at += 1;
    return keys[at - 1];
  };
}

function expectAll(expected: number, calls: readonly { status: number }[]): void {
  const other = calls.filter(({ status }) => status !== expected);
  if (other.length > 0) throw new Error(`${other.length} of ${calls.length} calls got ${other[0]?.status}`);
}

async function measured(server: ServerProcess, keys: readonly string[]): Promise<string[]> {
  const alone = await callWith(server, 1, oneByOne(keys.slice(0, ALONE)));
  const known = await callWith(server, 1, oneByOne(keys.slice(0, ALONE)));
  const startedMs = performance.now();
  const together = await callWith(server, CONNECTIONS, oneByOne(keys.slice(ALONE)));
  const togetherS = (performance.now() - startedMs) / 1000;
  const untilMs = performance.now() + GUESSES_MS;
  const guesses = await callWith(server, CONNECTIONS, () => (performance.now() < untilMs ? newKey().key : undefined));
  await Bun.sleep(QUIET_MS);
  const quiet = await callWith(server, 1, oneByOne(keys.slice(-1)));
  expectAll(200, [...alone, ...known, ...together, ...quiet]);
  expectAll(401, guesses);
  const times = [alone, known, quiet].map((calls) => `${median(calls.map(({ ms }) => ms)).toFixed(1)} ms`);
  const rates = [together.length / togetherS, guesses.length / (GUESSES_MS / 1000)];
  return [...times, ...rates.map((perS) => `${perS.toFixed(0)}/s`)];
}

await using sqld = await startSqld();
await using proxy = await startProxy(sqld.url, { delayMs: AWAY_MS });
const rows: string[][] = [];
for (const mode of STORE_MODES.filter((one) => one !== 'embedded')) {
  const env = {
    JWT_SECRET: TEST_SECRET,
    TRUST_PROXY: '1',
    LOG_LEVEL: 'error',
    RATE_LIMIT_REQUESTS: '0',
    REVOCATION_LAG_MAX_MS: LAG_MAX_MS,
  };
  const store = storeEnvOn({ ...sqld.env, DATABASE_URL: proxy.url }, mode);
  await using server = await startServer({ env: { ...env, ...store } });
  const health = async () => (await (await fetch(`${server.url}/mcp/health`)).json()) as { store: Health };
  await waitFor(async () => (await health()).store.ok);
  const keys = await addKeys(sqld.url, ALONE + AT_ONCE);
  const last = keys.at(-1) ?? '';
  await waitFor(async () => (await callOver(server.url, 'get_data', {}, { 'x-api-key': last })).status === 200);
  if (mode === 'replica') await waitFor(async () => (await health()).store.replica === 'in_use');
  rows.push([mode, ...(await measured(server, keys))]);
}

interface Health {
  readonly ok: boolean;
  readonly replica?: string;
}

const heads = [
  '',
  'first use, p50',
  'from memory, p50',
  'after a quiet minute',
  `first uses, ${CONNECTIONS} at once`,
  `guesses, ${CONNECTIONS} at once`,
];
console.log(`${machineLine()}\n\n${markdown(heads, rows)}`);
process.exit(0);
