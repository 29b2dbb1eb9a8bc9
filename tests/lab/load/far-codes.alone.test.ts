// What floods of codes leave to others when the primary is far away, beside the same on a file: replays of one code, and
// made-up ones. `SERVER_RUNTIME=deno` runs them there.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { callOver, userHeaders } from '../../support/client.ts';
import { type Registered, register } from '../../support/hand-over.ts';
import { postText } from '../../support/http-socket.ts';
import { startProxy } from '../../support/proxy.ts';
import { startServer } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { storeEnvOn } from '../../support/store-mode.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { attack } from './attack.ts';

setDefaultTimeout(120_000);

const HONEST_MS_MAX = 2000;
const PER_S_MAX = 16_000;
const HONEST = { 'x-forwarded-for': '198.51.100.1' };

const PLACES: [string, number | null][] = [
  ['a file', null],
  ['a primary 20 ms away', 20],
  ['a primary 50 ms away', 50],
];

const FLOODS: [string, (count: number, replayed: string) => string, (count: number) => string][] = [
  ['replays of one code from one address', (_, replayed) => replayed, () => '192.0.2.1'],
  ['made-up codes from one address', () => madeUp(), () => '192.0.2.1'],
  ['made-up codes from 300 networks', () => madeUp(), (count) => `2001:db8:0:${(count % 300).toString(16)}::1`],
];

const madeUp = () => randomBytes(32).toString('base64url');

test.each(PLACES.flatMap(([place, delayMs]) => FLOODS.map((flood) => [place, flood[0], delayMs, flood] as const)))(
  'on %s, beside %s, a key is handed out, and a rotated one first used',
  async (_place, _flood, delayMs, [, codeOf, addressOf]) => {
    await using stack = new AsyncDisposableStack();
    let store: Record<string, string> = {};
    if (delayMs !== null) {
      const sqld = stack.use(await startSqld());
      const proxy = stack.use(await startProxy(sqld.url, { delayMs }));
      store = storeEnvOn({ ...sqld.env, DATABASE_URL: proxy.url }, 'remote');
    }
    const env = { JWT_SECRET: TEST_SECRET, TRUST_PROXY: '1', LOG_LEVEL: 'warn', OAUTH_REDIRECTS: 'loopback', ...store };
    const server = stack.use(await startServer({ env }));
    const { url } = server;
    await waitFor(async () => (await fetch(`${url}/mcp/health`)).status === 200);
    const alice = await userHeaders('alice');
    const create = async () =>
      (await callOver(url, 'create_api_key', { name: 'n', scopes: ['read'] }, { ...HONEST, ...alice })).body;
    const client = await register(server);
    const replayed = await codeAt(url, client, (await create()).key);
    expect((await client.redeem(replayed, {}, HONEST)).status).toBe(200);
    const { id, key } = await create();
    const rotated = await create();
    const rotating = { keyId: rotated.id, overlapHours: 1 };
    const { key: next } = (await callOver(url, 'rotate_api_key', rotating, { ...HONEST, ...alice })).body;

    let count = 0;
    const attacker = await attack(
      url,
      { connections: 300, perSMax: PER_S_MAX },
      {
        next() {
          count += 1;
          return redemption(client, codeOf(count, replayed), addressOf(count));
        },
      },
    );
    await waitFor(() => attacker.answered > 1200);
    const startedMs = performance.now();
    const [redeemed, used] = await Promise.all([
      codeAt(url, client, key).then((code) => client.redeem(code, {}, HONEST)),
      callOver(url, 'get_data', {}, { ...HONEST, 'x-api-key': next }),
    ]);
    const tookMs = performance.now() - startedMs;
    attacker.end();
    expect([redeemed.status, redeemed.body.access_token, used.status]).toEqual([200, key, 200]);
    expect(tookMs).toBeLessThan(HONEST_MS_MAX);
    await callOver(url, 'revoke_api_key', { keyId: id }, { ...HONEST, ...alice });
  },
);

/** A POST /token as it goes over a socket. */
function redemption({ clientId, verifier }: Registered, code: string, address: string): string {
  const fields = { grant_type: 'authorization_code', code, code_verifier: verifier, client_id: clientId };
  const body = new URLSearchParams(fields).toString();
  return postText('/token', body, {
    'Content-Type': 'application/x-www-form-urlencoded',
    'X-Forwarded-For': address,
  });
}

async function codeAt(url: string, { page }: Registered, key: string): Promise<string> {
  const form = new URLSearchParams([...page().searchParams, ['key', key]]);
  const headers = { ...HONEST, origin: url };
  const response = await fetch(`${url}/authorize`, { method: 'POST', body: form, headers, redirect: 'manual' });
  return new URL(response.headers.get('location') ?? 'x:').searchParams.get('code') ?? '';
}
