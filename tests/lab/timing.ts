// bun run timing [--samples 1000]: measures what the time of a response tells about the key that was sent: of refusals,
// of POST /revoke, and of uses of a key that was rotated.
//
// The statistic is the Mann-Whitney AUC: how often a response of one kind takes longer than one of the kind it is
// compared with, the first. 0.5 is what a coin would give; the standard error says how far chance alone gets. Requests of
// all kinds are mixed at random, so that other work on the machine affects all of them alike.

import { parseArgs } from 'node:util';
import { callOver, userToken } from '../support/client.ts';
import { openSocket, postText } from '../support/http-socket.ts';
import { startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { median } from './bench/measure.ts';
import { createWire, type Wire } from './fuzz/wire.ts';

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

type Fate = 'kept' | 'revoked' | 'rotated' | 'rotated and used';

/** Keys of users of their own. Of those that are rotated, both secrets. */
async function makeKeys(count: number, fate: Fate, input: object = {}): Promise<{ first: string; second: string }[]> {
  const keys: { first: string; second: string }[] = [];
  for (let made = 0; made < count; made += 1) {
    const user = `${fate} ${JSON.stringify(input)} ${Math.floor(made / KEYS_PER_USER)}`;
    const headers = { authorization: `Bearer ${await userToken(user)}` };
    const call = async (tool: string, given: object) => (await callOver(server.url, tool, given, headers)).body;
    const { id: keyId, key: first } = await call('create_api_key', { name: 'x', scopes: ['read'], ...input });
    let second = '';
    if (fate === 'revoked') await call('revoke_api_key', { keyId });
    else if (fate !== 'kept') second = (await call('rotate_api_key', { keyId })).key;
    if (fate === 'rotated and used') await callOver(server.url, 'get_data', {}, { 'x-api-key': second });
    keys.push({ first, second });
  }
  return keys;
}

/** Keys by kind; all are compared with the first kind. */
type Kinds = Readonly<Record<string, readonly string[]>>;

const firsts = (keys: readonly { first: string }[]) => keys.map(({ first }) => first);
const seconds = (keys: readonly { second: string }[]) => keys.map(({ second }) => second);
const guesses = (of: (index: number) => string) => Array.from({ length: SAMPLES }, (_, index) => of(index));

console.error('making keys ...');
const [real = ''] = firsts(await makeKeys(1, 'kept'));
const NEVER_ISSUED = { 'never issued': guesses(() => `sk_test_${hex(64)}`) };
const NEAR = { 'wrong in its last 8': guesses(() => real.slice(0, -8) + hex(8)) };
const REFUSED: Kinds = {
  ...NEVER_ISSUED,
  'wrong in its first half': guesses(() => `sk_test_${hex(32)}${real.slice(-32)}`),
  'wrong in its last half': guesses(() => real.slice(0, -32) + hex(32)),
  ...NEAR,
  revoked: firsts(await makeKeys(SAMPLES, 'revoked')),
  expired: firsts(await makeKeys(SAMPLES, 'kept', { expiresInDays: 1e-9 })),
};

/** What a key is sent to, and the status that it must get there. */
interface Target {
  readonly requestWith: (key: string, headers: Record<string, string>) => string;
  readonly status: number;
}
const TOOL = (key: string, headers: Record<string, string>) =>
  postText('/tools/get_data', '', { 'X-API-Key': key, ...headers });
const REFUSAL: Target = { requestWith: TOOL, status: 401 };
const USE: Target = { requestWith: TOOL, status: 200 };
const REVOCATION: Target = {
  requestWith: (key, headers) => postText('/revoke', JSON.stringify([key]), headers),
  status: 200,
};

async function responseMs(on: Wire, { requestWith, status }: Target, key: string): Promise<number> {
  const network = crypto.getRandomValues(new Uint8Array(3)).join('.');
  const request = requestWith(key, { 'X-Forwarded-For': `10.${network}` });
  const startedAtMs = performance.now();
  const { responses } = await on.put({ chunks: [request], pauseMs: 0, expect: 'response', isHead: false });
  const tookMs = performance.now() - startedAtMs;
  if (responses[0]?.status !== status) throw new Error(`responded ${responses[0]?.status}`);
  return tookMs;
}

/** Sends every key `repeat` times, in random order of the keys; the times of the last ones by kind. */
async function sendAll(kinds: Kinds, target: Target, repeat = 1): Promise<Map<string, number[]>> {
  const all = Object.entries(kinds).flatMap(([kind, keys]) => keys.map((key) => ({ kind, key, at: Math.random() })));
  all.sort((a, b) => a.at - b.at);
  const times = new Map(Object.keys(kinds).map((kind) => [kind, [] as number[]]));
  for (const { kind, key } of all) {
    let tookMs = 0;
    for (let turn = 0; turn < repeat; turn += 1) tookMs = await responseMs(wire, target, key);
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

function report(what: string, times: ReadonlyMap<string, readonly number[]>): void {
  const [[comparedWith, base] = ['', []]] = times;
  console.log(`\n${what}, ${SAMPLES} of each`);
  for (const [kind, taken] of times) {
    const error = Math.sqrt((taken.length + base.length + 1) / (12 * taken.length * base.length));
    const compared = kind === comparedWith ? '' : `AUC ${auc(taken, base).toFixed(3)} ± ${(1.96 * error).toFixed(3)}`;
    console.log(`  ${kind.padEnd(24)} median ${(median(taken) * 1000).toFixed(0).padStart(5)} µs  ${compared}`);
  }
}

/** Warms up the server's code with keys that are not measured. */
async function warmUp(): Promise<void> {
  for (let turn = 0; turn < 2000; turn += 1) {
    await responseMs(wire, REFUSAL, `sk_test_${hex(64)}`);
    await responseMs(wire, REVOCATION, `sk_test_${hex(64)}`);
  }
}

await warmUp();
report('refused, first seen', await sendAll(REFUSED, REFUSAL));
report('refused, seen a moment ago', await sendAll(REFUSED, REFUSAL, 2));
await Bun.sleep(FORGOTTEN_AFTER_MS);
report('refused, seen a while ago', await sendAll(REFUSED, REFUSAL));

const LEAKED: Kinds = {
  ...NEVER_ISSUED,
  ...NEAR,
  revoked: REFUSED.revoked ?? [],
  'in force: ends': firsts(await makeKeys(SAMPLES, 'kept')),
  'next: ends': seconds(await makeKeys(SAMPLES, 'rotated')),
  'previous: ends': firsts(await makeKeys(SAMPLES, 'rotated and used')),
};
await Bun.sleep(FORGOTTEN_AFTER_MS);
report('sent to /revoke', await sendAll(LEAKED, REVOCATION));
await Bun.sleep(FORGOTTEN_AFTER_MS);
report('sent to /revoke again: all have ended', await sendAll(LEAKED, REVOCATION));

const rotated = await makeKeys(SAMPLES, 'rotated', { expiresInDays: 1 });
const replaced = await makeKeys(SAMPLES, 'rotated and used', { expiresInDays: 1 });
const USED: Kinds = {
  'of a key': firsts(await makeKeys(SAMPLES, 'kept', { expiresInDays: 1 })),
  'of a previous secret': firsts(replaced),
  'of a next secret': seconds(rotated),
};
report('first use', await sendAll(USED, USE));
report('further use', await sendAll(USED, USE));
wire.close();
