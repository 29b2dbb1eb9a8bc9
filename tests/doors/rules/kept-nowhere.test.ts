// The token of a workload, good and bad, wherever a key may stand and where it may not: no part of it is in an answer, the
// log, the access log, the trail, the database, or the memory of the process after its requests.

import { expect, test } from 'bun:test';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { EXCHANGE, JWT_BEARER } from '../../support/children.ts';
import { userHeaders } from '../../support/client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { createIssuer, createKey } from '../../support/issuer.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { call, fetchMcp } from '../../support/mcp.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { SUBJECT } from './workload.ts';

const HEAP_DUMP = join(import.meta.dir, '../../support/heap-dump.ts');
const JWT = 'urn:ietf:params:oauth:token-type:jwt';
const METRICS_TOKEN = 'a-token-of-tests-for-metrics';

test('a token leaves nothing of itself anywhere', async () => {
  await using issuer = await createIssuer();
  const folder = temporaryFolder();
  const env = {
    DATABASE_URL: `file:${join(folder, 'keys.db')}`,
    ...{ JWT_SECRET: TEST_SECRET, PUBLIC_URL: 'http://localhost:1', ADMIN_CLAIM: 'roles=admin' },
    ...{ LOG_LEVEL: 'debug', ACCESS_LOG: '1', METRICS_TOKEN, HEAP_DUMP: join(folder, 'heap') },
  };
  await using server = await startServer({ runtime: 'bun', env, preload: [HEAP_DUMP] });
  const keys = async (...args: string[]) => (await keysCommand(env, args)).stdout.trim();
  const service = await keys('create', '--user', 'operator', '--name', 's', '--scope', 'introspect');
  const keyId = await keys('create', '--user', 'acme', '--name', 'n', '--scope', 'read', '--no-secret');
  await keys('rule', 'add', keyId, '--issuer', issuer.url, '--subject', SUBJECT);
  const nowS = Math.floor(Date.now() / 1000);
  const token = (claims: object = {}, options = {}) =>
    issuer.token({ sub: SUBJECT, aud: env.PUBLIC_URL, iat: nowS, exp: nowS + 3600, ...claims }, options);
  const good = await token();
  const tokens = [
    good,
    await token({ sub: 'another' }),
    await token({ aud: 'another' }),
    await token({ exp: nowS - 1 }),
    await token({ nonce: 'a' }),
    await token({}, { header: { kid: 'made up' } }),
    await token({}, { key: await createKey('ES256', 'first') }),
    await token({ iss: 'https://stranger.example' }),
    `${await token({ jti: 'padded' })}=`,
  ];

  const alice = await userHeaders('alice', TEST_SECRET, { roles: ['admin'] });
  const said: string[] = [];
  async function send(path: string, init: RequestInit = {}): Promise<number> {
    const response = await fetch(server.url + path, { method: 'POST', redirect: 'manual', ...init });
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
    said.push(JSON.stringify([...response.headers]), isStream ? '' : await response.text());
    if (isStream) await response.body?.cancel();
    return response.status;
  }
  const form = (fields: Record<string, string>, headers = {}) => ({ body: new URLSearchParams(fields), headers });
  const json = (value: object, headers = {}) => ({
    body: JSON.stringify(value),
    headers: { 'content-type': 'application/json', ...headers },
  });
  for (const one of tokens) {
    const [key, bearer] = [{ 'x-api-key': one }, { authorization: `Bearer ${one}` }];
    const isGood = one === good;
    expect((await send('/tools/whoami', { headers: key })) === 200).toBe(isGood);
    for (const tool of ['whoami', 'get_data', 'list_api_keys', 'admin_list_keys']) {
      for (const headers of [key, bearer]) await send(`/tools/${tool}`, { headers });
      await send(`/tools/${tool}`, json({ _meta: { api_key: one } }));
      for (const headers of [key, bearer]) {
        const answer = await fetchMcp(server, call(tool, {}), headers);
        said.push(JSON.stringify([...answer.headers]), await answer.text());
      }
    }
    for (const path of ['/verify', '/sse', '/keys', '/authorize', `/mcp?token=${one}`, `/keys/${one}`]) {
      await send(path, { method: 'GET', headers: key });
    }
    await send('/introspect', form({ token: one }, { authorization: `Bearer ${service}` }));
    await send('/introspect', form({ token: 'x' }, bearer));
    await send('/token', form({ grant_type: JWT_BEARER, assertion: one }));
    await send('/token', form({ grant_type: EXCHANGE, subject_token: one, subject_token_type: JWT }));
    await send('/revoke', form({ token: one }));
    await send('/tools/create_api_key', json({ name: one, scopes: [] }, bearer));
    await send('/keys/events', json({ keyId: one }, { ...alice, origin: 'http://localhost:1' }));
  }
  await send('/metrics', { method: 'GET', headers: { authorization: `Bearer ${METRICS_TOKEN}` } });

  const parts = tokens.flatMap((one) => one.split('.').slice(1));
  const isIn = (text: string) => parts.filter((part) => text.includes(part)).length;
  // What is remembered of a good token is there; a text that only a register still points to goes with the next requests.
  const known = new Bun.CryptoHasher('sha256').update(good).digest('base64url');
  await waitFor(async () => {
    for (let calls = 0; calls < 20; calls += 1) await send('/tools/list_api_keys', { headers: alice });
    rmSync(env.HEAP_DUMP, { force: true });
    server.signal('SIGUSR2');
    await waitFor(() => Bun.file(env.HEAP_DUMP).exists());
    const heap = readFileSync(env.HEAP_DUMP, 'utf8');
    expect(heap).toContain(known);
    return isIn(heap) === 0;
  });
  const shown = [
    ...[await keys('events', '--json'), await keys('list', '--json'), await keys('rule', 'list')],
    ...[await keys('show', keyId), server.stdout(), server.stderr(), ...said],
  ];
  expect(server.stdout()).toContain(SUBJECT); // the access log, and the log
  await server.stop();
  rmSync(env.HEAP_DUMP);
  const files = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'latin1'));
  expect(files.join('')).toContain(SUBJECT);
  for (const text of [...shown, ...files])
    expect({ count: isIn(text), eyJ: /eyJ[\w-]{8}/.exec(text) }).toEqual({ count: 0, eyJ: null });
}, 180_000);
