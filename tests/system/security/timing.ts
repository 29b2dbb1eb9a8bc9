// bun run timing [--samples 1000]: measures how long refusals take, by how near the presented key is to a real one.
//
// The statistic is the Mann-Whitney AUC: how often a refusal of one kind takes longer than one of the kind it is
// compared with. 0.5 is what a coin would give; the standard error says how far chance alone gets. Requests of all
// kinds are mixed at random, so that other work on the machine affects all of them alike.

import { parseArgs } from 'node:util';
import { createWire, type Wire } from '../../fuzz/wire.ts';
import { callOver, userToken } from '../../support/client.ts';
import { openSocket, rawPost } from '../../support/raw.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const { values } = parseArgs({ options: { samples: { type: 'string', default: '1000' } } });
const SAMPLES = Number(values.samples);
/** Longer than a process remembers that a key is unknown (src/keys/verify.ts). */
const FORGOTTEN_AFTER_MS = 1200;
const KEYS_PER_USER = 900;

const hex = (length: number) =>
  Array.from(crypto.getRandomValues(new Uint8Array(length / 2)), (byte) => byte.toString(16).padStart(2, '0')).join('');

await using server = await startServer({
  // Callers from many addresses: guesses from a single one would be slowed down.
  env: { JWT_SECRET: TEST_SECRET, TRUST_PROXY: '1', RATE_LIMIT_REQUESTS: '0', LOG_LEVEL: 'error' },
});
const wire = createWire({ connect: () => openSocket(server.url) });

async function makeKeys(count: number, input: object, revoke: boolean): Promise<string[]> {
  const keys: string[] = [];
  for (let made = 0; made < count; made += 1) {
    const headers = {
      authorization: `Bearer ${await userToken(`${JSON.stringify(input)} ${revoke} ${Math.floor(made / KEYS_PER_USER)}`)}`,
    };
    const { body } = await callOver(server.url, 'create_api_key', { name: 'x', scopes: ['read'], ...input }, headers);
    if (revoke) await callOver(server.url, 'revoke_api_key', { keyId: body.id }, headers);
    keys.push(body.key);
  }
  return keys;
}

console.error('making keys ...');
const [real = ''] = await makeKeys(1, {}, false);
const GUESSES: Readonly<Record<string, readonly string[]>> = {
  'never issued': Array.from({ length: SAMPLES }, () => `sk_test_${hex(64)}`),
  'wrong in its first half': Array.from({ length: SAMPLES }, () => `sk_test_${hex(32)}${real.slice(-32)}`),
  'wrong in its last half': Array.from({ length: SAMPLES }, () => real.slice(0, -32) + hex(32)),
  'wrong in its last 8': Array.from({ length: SAMPLES }, () => real.slice(0, -8) + hex(8)),
  revoked: await makeKeys(SAMPLES, {}, true),
  expired: await makeKeys(SAMPLES, { expiresInDays: 1e-9 }, false),
};
const COMPARED_WITH = 'never issued';

async function refusalMs(on: Wire, key: string): Promise<number> {
  const network = crypto.getRandomValues(new Uint8Array(3)).join('.');
  const request = rawPost('/tools/get_data', '', { 'X-API-Key': key, 'X-Forwarded-For': `10.${network}` });
  const startedAtMs = performance.now();
  const { answers } = await on.put({ chunks: [request], pauseMs: 0, expect: 'answer', isHead: false });
  const tookMs = performance.now() - startedAtMs;
  if (answers[0]?.status !== 401) throw new Error(`answered ${answers[0]?.status}`);
  return tookMs;
}

/** Presents every key once, in random order; the times by kind. */
async function presentAll(repeat: number): Promise<Map<string, number[]>> {
  const all = Object.entries(GUESSES).flatMap(([kind, keys]) => keys.map((key) => ({ kind, key, at: Math.random() })));
  all.sort((a, b) => a.at - b.at);
  const times = new Map(Object.keys(GUESSES).map((kind) => [kind, [] as number[]]));
  for (const { kind, key } of all) {
    let tookMs = 0;
    for (let turn = 0; turn < repeat; turn += 1) tookMs = await refusalMs(wire, key);
    times.get(kind)?.push(tookMs);
  }
  return times;
}

/** How often a value of `a` is above one of `b`; ties count half. */
function auc(a: readonly number[], b: readonly number[]): number {
  const sorted = [...b].sort((x, y) => x - y);
  const below = (value: number, orEqual: boolean) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const found = sorted[middle] ?? 0;
      if (found < value || (orEqual && found === value)) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const wins = a.reduce((sum, value) => sum + (below(value, false) + below(value, true)) / 2, 0);
  return wins / (a.length * b.length);
}

const median = (times: readonly number[]) => [...times].sort((a, b) => a - b)[times.length >> 1] ?? 0;

function report(what: string, times: ReadonlyMap<string, readonly number[]>): void {
  const base = times.get(COMPARED_WITH) ?? [];
  console.log(`\n${what}, ${SAMPLES} of each`);
  for (const [kind, taken] of times) {
    const error = Math.sqrt((taken.length + base.length + 1) / (12 * taken.length * base.length));
    const compared = kind === COMPARED_WITH ? '' : `AUC ${auc(taken, base).toFixed(3)} ± ${(1.96 * error).toFixed(3)}`;
    console.log(`  ${kind.padEnd(24)} median ${(median(taken) * 1000).toFixed(0).padStart(5)} µs  ${compared}`);
  }
}

await presentAllWarm();
report('first seen', await presentAll(1));
report('seen a moment ago', await presentAll(2));
await Bun.sleep(FORGOTTEN_AFTER_MS);
report('seen a while ago', await presentAll(1));
wire.close();

/** Warms up the server's code with keys that are not measured. */
async function presentAllWarm(): Promise<void> {
  for (let turn = 0; turn < 2000; turn += 1) await refusalMs(wire, `sk_test_${hex(64)}`);
}
