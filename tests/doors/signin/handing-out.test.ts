// A key that is handed to a client: what it gets, for how long, once; and what is left behind.

import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { storedCodes } from '../../store/stored.ts';
import { EXCHANGE, exchange, JWT_BEARER } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { testClock } from '../../support/clock.ts';
import { databaseOf } from '../../support/database-client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { CALLBACK, codeByClick, codeFor, handOver, register, sentBack } from '../../support/hand-over.ts';
import { askAsPerson, askForKey, pollForKey } from '../../support/key-request.ts';
import { startProxy } from '../../support/proxy.ts';
import { refusal } from '../../support/refusal.ts';
import { startSlowStore } from '../../support/slow-store.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { bearer, createTestApp, eventsIn, fingerprint, listedKeys, type TestApp } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const ENV = { OAUTH_REDIRECTS: 'loopback https://client.example/back', OAUTH_RESOURCES: 'https://other.example/mcp' };
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** A client, a key of alice, and a code of the client for it. */
async function ready(app: TestApp) {
  const client = await register(app);
  const made = await app.createKey('alice');
  return { client, ...made, code: await codeFor(client, made.key) };
}

test('the token is the key, with its own scopes, and an end only if it has one', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const { key } = await app.createKey('alice', { scopes: ['write', 'read'] });
  expect(await client.redeem(await codeFor(client, key))).toEqual({
    status: 200,
    body: { access_token: key, token_type: 'Bearer', scope: 'write read' },
  });
  const { key: ending } = await app.createKey('alice', { scopes: [], expiresInDays: 1 });
  const code = await codeFor(client, ending);
  app.clock.advance(1500);
  expect((await client.redeem(code)).body).toEqual({
    access_token: ending,
    token_type: 'Bearer',
    scope: '',
    expires_in: 86_398,
  });
});

/** A clock, and the same as seen by an app: it goes on by 1 ms at each look. */
function clockSeen() {
  const clock = testClock();
  const nowMs = () => {
    clock.setNow(clock.nowMs() + 1);
    return clock.nowMs();
  };
  return { clock, seen: { ...clock, nowMs } };
}

test('a key that is made for a client says the life that was asked for, however long its making takes', async () => {
  await using app = await createTestApp({ env: { ...ENV, OAUTH_DEVICE: '1' }, clock: clockSeen().seen });
  const alice = await bearer(app, 'alice');
  const decided = { name: 'for a day', scopes: ['delegate', 'read'], expiresInDays: 1 };
  const client = await register(app);
  const byClick = await client.redeem(await codeByClick(app, client.page(), alice, decided));
  const asked = (await askForKey(app, {})).body;
  await askAsPerson(app, 'decision', { userCode: asked.user_code, approve: true, ...decided }, alice);
  const byDevice = await pollForKey(app, asked.device_code);
  const { key } = await app.createKey('alice', { scopes: ['delegate', 'read'] });
  const byExchange = await exchange(app, key, { expires_in: '86400' });
  expect([byClick, byDevice, byExchange].map(({ body }) => body.expires_in)).toEqual([86_400, 86_400, 86_400]);
});

/** Looks of a redemption at the clock before it looks whether its code has ended, or more. */
const LOOKS = 8;

test('no key is made when its code has ended, even after that was checked', async () => {
  const { clock, seen } = clockSeen();
  await using app = await createTestApp({ env: { ...ENV, OAUTH_DEVICE: '1' }, clock: seen });
  const decided = { name: 'n', scopes: ['read'], expiresInDays: 1 };
  const client = await register(app);
  const outcomes = { click: new Set<number>(), device: new Set<number>() };
  const atEnd = async (leftMs: number) => {
    const ends = (await storedCodes(databaseOf(app))).map(({ ends_at_ms }) => Number(ends_at_ms));
    clock.setNow(Math.max(...ends) - leftMs);
  };
  for (let leftMs = 1; leftMs <= LOOKS; leftMs += 1) {
    const alice = await bearer(app, 'alice');
    const code = await codeByClick(app, client.page(), alice, decided);
    await atEnd(leftMs);
    outcomes.click.add((await client.redeem(code)).status);
    const asked = (await askForKey(app, {})).body;
    await askAsPerson(app, 'decision', { userCode: asked.user_code, approve: true, ...decided }, alice);
    await atEnd(leftMs);
    outcomes.device.add((await pollForKey(app, asked.device_code)).status);
  }
  expect(outcomes).toEqual({ click: new Set([400, 200]), device: new Set([400, 200]) });
  const made = new Map((await listedKeys(app, 'alice')).map(({ id, createdAt }) => [id, createdAt]));
  const late = (await storedCodes(databaseOf(app))).filter(
    ({ key_id, ends_at_ms }) => (made.get(key_id) ?? 0) >= Number(ends_at_ms),
  );
  expect(late).toEqual([]);
});

test('a pasted key is not handed out when the code has ended before the key was read', async () => {
  await using slow = await startSlowStore();
  await using app = await createTestApp({ env: ENV, store: slow.store });
  await using other = await createTestApp({ env: ENV, store: slow.store, clock: app.clock });
  const { client, key, code } = await ready(app);
  const read = slow.delayReadOf(key);
  const redeemed = client.redeem(code, {}, {}, other);
  await read.made;
  app.clock.sleep(MINUTE_MS);
  read.release();
  expect((await redeemed).body.error).toBe('invalid_grant');
});

test('a pasted key is handed out by a process that has not seen it', async () => {
  await using app = await createTestApp({ env: ENV });
  const beside = { ...ENV, DATABASE_URL: databaseOf(app) };
  await using other = await createTestApp({ env: beside, clock: app.clock });
  const { client, key, code } = await ready(app);
  expect((await client.redeem(code, {}, {}, other)).body.access_token).toBe(key);
});

test('the log says in which trace, and for which server, a client’s key was made', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const resource = { resource: `${app.url}/mcp` };
  const code = await codeByClick(app, client.page(resource), await bearer(app, 'alice'));
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const redeemed = await client.redeem(code, {}, { traceparent: `00-${traceId}-00f067aa0ba902b7-01` });
  expect(redeemed.status).toBe(200);
  const created = (await app.log()).find(({ event }) => event === 'API key created');
  expect([created?.traceId, created?.resource]).toEqual([traceId, app.url]);
});

test.each([
  ['https://client.example/back', '?'],
  ['https://chat.example/oauth/connector-1_Z', '?'],
  ['app.example://back', '?'],
  ['app.example:/back?a=b', '&'],
  ['http://[::1]:1/a?', ''],
  ['http://localhost', '?'],
])('a code goes to %s, as it stands, and is redeemed', async (redirect, joint) => {
  const admitted = 'loopback https://client.example/back https://chat.example/oauth/* app.example://back';
  await using app = await createTestApp({ env: { OAUTH_REDIRECTS: `${admitted} app.example:/back?a=b` } });
  const client = await register(app, [redirect]);
  const { key } = await app.createKey('alice');
  const response = await handOver(client.page(), { key });
  expect(response.headers.get('location')).toStartWith(`${redirect}${joint}code=`);
  const code = (await sentBack(response)).get('code') ?? '';
  expect((await client.redeem(code)).body.access_token).toBe(key);
});

test('a redirect may differ in its port, and keeps its query as it stands', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app, ['http://127.0.0.1/back?a=%62&c']);
  const { key } = await app.createKey('alice');
  const redirect = 'http://127.0.0.1:4321/back?a=%62&c';
  const response = await handOver(client.page({ redirect_uri: redirect }), { key });
  expect(response.headers.get('location')).toStartWith(`${redirect}&code=`);
  const code = (await sentBack(response)).get('code') ?? '';
  expect((await client.redeem(code)).body.error).toBe('invalid_grant');
  expect((await client.redeem(code, { redirect_uri: redirect })).status).toBe(200);
});

test('a code is good for a minute', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const { key } = await app.createKey('alice');
  const [first, second] = [await codeFor(client, key), await codeFor(client, key)];
  app.clock.advance(MINUTE_MS - 1);
  expect((await client.redeem(first)).status).toBe(200);
  app.clock.advance(1);
  expect((await client.redeem(second)).body.error).toBe('invalid_grant');
});

test('of many who redeem a code at once one gets the key, which lives on; a thousand replays cost its owner nothing', async () => {
  await using app = await createTestApp({ env: ENV, store: 'embedded' });
  const { client, id, key, code } = await ready(app);
  for (let times = 0; times < 11; times += 1) {
    const redeemed = await Promise.all(Array.from({ length: 100 }, () => client.redeem(code)));
    expect(redeemed.filter(({ status }) => status === 200)).toHaveLength(times === 0 ? 1 : 0);
    expect(redeemed.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(times === 0 ? 99 : 100);
  }
  expect((await app.useKey(key)).status).toBe(200);
  expect((await eventsIn(app)).filter(({ kind }) => kind === 'connected')).toHaveLength(1);
  const refused = (await app.log()).filter(({ event }) => event === 'code of a client refused');
  expect(refused).toHaveLength(1);
  expect(refused[0]).toMatchObject({ level: 'warn', keyId: id, reason: 'redeemed before' });
  expect((await client.redeem(await codeFor(client, key))).status).toBe(200);
});

test('a key that is handed out all the time has to wait, so that the trail grows slowly; others don’t', async () => {
  await using app = await createTestApp({ env: ENV, store: 'embedded' });
  const client = await register(app);
  const { key } = await app.createKey('alice');
  for (let times = 0; times < 100; times += 1) await codeFor(client, key);
  const refused = await handOver(client.page(), { key });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '10']);
  const { key: other } = await app.createKey('alice');
  expect((await client.redeem(await codeFor(client, other))).status).toBe(200);
  app.clock.advance(10_000);
  expect((await client.redeem(await codeFor(client, key))).status).toBe(200);
});

test('while the database is away nobody gets a key, and each is told so in its own way', async () => {
  await using app = await createTestApp({ env: ENV, store: 'embedded' });
  const { client, key, code } = await ready(app);
  const form = new URLSearchParams([...client.page().searchParams, ['key', key]]);
  await app.loseStore();
  app.clock.advance(1000);
  const headers = { origin: app.url };
  const page = await fetch(`${app.url}/authorize`, { method: 'POST', body: form, headers, redirect: 'manual' });
  expect([page.status, page.headers.get('location'), page.headers.get('retry-after')]).toEqual([503, null, '1']);
  expect(await page.text()).toContain('role="alert"');
  expect(await client.redeem(code)).toEqual({ status: 503, body: refusal('temporarily_unavailable') });
});

test('a new key is handed out once it is made, though its response is lost, or the primary is away right afterwards', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  const store = storeOn({ ...sqld.env, DATABASE_URL: proxy.url });
  await using app = await createTestApp({ env: { ...ENV, OAUTH_DEVICE: '1' }, store });
  const alice = await bearer(app, 'alice');
  const client = await register(app);
  const byClick = async () => {
    const code = await codeByClick(app, client.page(), alice);
    return () => client.redeem(code);
  };
  const byDevice = async () => {
    const { device_code: deviceCode, user_code: userCode } = (await askForKey(app)).body;
    await askAsPerson(app, 'decision', { userCode, approve: true, name: 'by a device', scopes: ['read'] }, alice);
    return () => pollForKey(app, deviceCode);
  };
  for (const decided of [byClick, byDevice]) {
    const redeemLost = await decided();
    proxy.loseResponseTo('UPDATE codes SET taken_by');
    expect((await redeemLost()).status).toBe(200);
    const redeemAway = await decided();
    proxy.refuse('FROM codes WHERE hash = ?1 AND taken_by');
    expect((await redeemAway()).status).toBe(200);
    proxy.refuse(null);
    expect((await redeemAway()).body).toEqual(refusal('invalid_grant'));
  }
  expect(await listedKeys(app, 'alice')).toHaveLength(4);
});

test('a server that has not read its secret yet registers nobody while the database is away', async () => {
  await using app = await createTestApp({ env: ENV, store: 'embedded' });
  await app.loseStore();
  app.clock.advance(1000);
  const response = await postJson(`${app.url}/register`, { redirect_uris: [CALLBACK] });
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
  expect(await response.json()).toEqual(refusal('temporarily_unavailable'));
  const page = await fetch(`${app.url}/authorize?client_id=WyJ4Il0.${'0'.repeat(64)}`);
  expect([page.status, page.headers.get('content-type')]).toEqual([503, 'text/html; charset=utf-8']);
});

test('without OAUTH_REDIRECTS there is nothing of it', async () => {
  await using app = await createTestApp();
  const paths = ['/.well-known/oauth-authorization-server', '/authorize', '/register']; // children of keys use /token
  for (const path of paths) {
    expect((await fetch(app.url + path)).status).toBe(404);
    expect((await fetch(app.url + path, { method: 'POST' })).status).toBe(404);
  }
  const body = new URLSearchParams({ grant_type: 'authorization_code', code: 'x', code_verifier: 'x', client_id: 'x' });
  const redeemed = await fetch(`${app.url}/token`, { method: 'POST', body });
  expect([redeemed.status, await redeemed.json()]).toEqual([400, refusal('unsupported_grant_type')]);
});

test('the metadata names this server alone, at the root and where its path places it', async () => {
  const env = { ...ENV, BASE_PATH: '/keys', JWT_SECRET: undefined, JWT_ISSUER: 'https://id.example' };
  await using app = await createTestApp({ env });
  const { origin } = new URL(app.url);
  const read = async (path: string) => (await fetch(origin + path)).json();
  const metadata = await read('/.well-known/oauth-authorization-server');
  expect(metadata).toEqual({
    issuer: app.url,
    authorization_endpoint: `${app.url}/authorize`,
    token_endpoint: `${app.url}/token`,
    registration_endpoint: `${app.url}/register`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', EXCHANGE, JWT_BEARER],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none'],
    authorization_response_iss_parameter_supported: true,
    scopes_supported: ['read'],
  });
  expect(await read('/.well-known/oauth-authorization-server/keys')).toEqual(metadata);
  for (const path of ['', '/mcp', '/sse']) {
    expect(await read(`/.well-known/oauth-protected-resource/keys${path}`)).toMatchObject({
      resource: app.url + path,
      authorization_servers: [app.url],
      scopes_supported: ['read'],
    });
  }
});

describe('the trail', () => {
  test('one event and one line say which key went where; the key itself is in none, and in no URL', async () => {
    await using app = await createTestApp({ env: { ...ENV, ACCESS_LOG: '1' } });
    const client = await register(app, ['https://client.example/back']);
    const { id, key } = await app.createKey('alice', { resource: 'https://other.example/mcp' });
    const page = client.page({ resource: 'https://other.example/mcp' });
    const handed = await handOver(page, { key });
    const code = (await sentBack(handed)).get('code') ?? '';
    await client.redeem(code);
    const events = await eventsIn(app);
    expect(events.at(-1)).toMatchObject({
      keyId: id,
      owner: 'alice',
      kind: 'connected',
      how: 'oauth',
      actor: 'client.example',
      address: '127.0.0.1',
      fingerprint: fingerprint(key),
    });
    const line = (await app.log()).find(({ event }) => event === 'API key handed to a client');
    expect(line).toMatchObject({
      keyId: id,
      userId: 'alice',
      host: 'client.example',
      resource: 'https://other.example/mcp',
      requestId: events.at(-1)?.requestId,
    });
    const secret = key.split('_').at(-1) ?? '';
    for (const text of [await app.logText(), JSON.stringify(events), handed.headers.get('location') ?? '', page.href]) {
      expect(text).not.toContain(secret);
    }
    expect(await app.logText()).not.toContain(code);
  });

  test('pasting sets lastUsedAt, is no use of the limit, and completes no rotation', async () => {
    await using app = await createTestApp({ env: { ...ENV, RATE_LIMIT_REQUESTS: '1' } });
    const client = await register(app);
    const { id } = await app.createKey('alice');
    const alice = await bearer(app, 'alice');
    const { key } = (await app.call('rotate_api_key', { keyId: id }, alice)).body;
    const code = await codeFor(client, key);
    const pastedAtMs = app.clock.nowMs();
    app.clock.advance(1000);
    expect((await client.redeem(code)).body.access_token).toBe(key); // which looks at it
    const [listed] = (await app.call('list_api_keys', {}, alice)).body.keys;
    expect(listed.rotation.state).toBe('until_first_use');
    expect(listed.lastUsedAt).toBe(pastedAtMs);
    expect((await app.useKey(key)).status).toBe(200);
  });
});

describe('what the database keeps of a code', () => {
  const codesIn = (app: TestApp) => storedCodes(databaseOf(app));

  test('its hash, and what opens with it alone; once it was redeemed nothing', async () => {
    await using app = await createTestApp({ env: ENV, store: 'embedded' });
    const { client, key, code } = await ready(app);
    expect(code).toMatch(/^[\w-]{43}$/);
    const [row] = await codesIn(app);
    expect(row?.hash).toBe(Bun.SHA256.hash(code, 'hex'));
    const secret = key.split('_').at(-1) ?? '';
    const files = readdirSync(app.folder).map((file) => readFileSync(join(app.folder, file), 'latin1'));
    for (const file of files) for (const text of [secret, code, client.verifier]) expect(file).not.toContain(text);
    // Whoever has a copy of the database has the hash: it is no code.
    for (const copied of [String(row?.hash), String(row?.hash).slice(0, 43)])
      expect((await client.redeem(copied)).body.error).toBe('invalid_grant');
    expect((await client.redeem(code)).status).toBe(200);
    expect(await codesIn(app)).toMatchObject([{ hash: row?.hash, content: '', changed_by: null }]);
  });

  test('an hour after its end nothing at all', async () => {
    const folder = temporaryFolder();
    const clock = testClock();
    const before = await createTestApp({ env: ENV, store: 'embedded', folder, clock });
    await codeFor(await register(before), (await before.createKey('alice')).key);
    await before.close();
    await using app = await createTestApp({ env: ENV, store: 'embedded', folder, clock });
    expect(await codesIn(app)).toHaveLength(1);
    await waitFor(async () => {
      clock.advance(HOUR_MS); // the upkeep's own pause is drawn
      return (await codesIn(app)).length === 0;
    });
  });

  test('a backup has none', async () => {
    await using app = await createTestApp({ env: ENV, store: 'embedded' });
    const { key, code } = await ready(app);
    const folder = temporaryFolder();
    const file = join(folder, 'backup.db');
    await app.keys('backup', file);
    const bytes = readFileSync(file);
    expect(bytes.includes(Bun.SHA256.hash(key, 'hex'))).toBe(true);
    expect(bytes.includes(Bun.SHA256.hash(code, 'hex'))).toBe(false);
    expect(readdirSync(folder)).toEqual(['backup.db']);
  });
});

test('a thousand guessed codes open nothing, use up the guesser’s budget, and cost nobody else a place', async () => {
  await using app = await createTestApp({ env: { ...ENV, TRUST_PROXY: '1' }, store: 'embedded' });
  const { client, code } = await ready(app);
  const guess = async () => {
    const code = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url');
    return client.redeem(code, {}, { 'x-forwarded-for': '192.0.2.1' });
  };
  for (let round = 0; round < 12; round += 1) {
    const guessed = await Promise.all(Array.from({ length: 100 }, guess));
    expect(guessed.filter(({ body }) => body.error !== 'invalid_grant')).toEqual([]);
  }
  expect(await client.redeem(code, {}, { 'x-forwarded-for': '192.0.2.2' })).toMatchObject({ status: 200 });
});

test('a clock that is set back makes no code good a second time, and prolongs none', async () => {
  await using app = await createTestApp({ env: ENV });
  const { client, key, code } = await ready(app);
  expect((await client.redeem(code)).status).toBe(200);
  const unused = await codeFor(client, key);
  app.clock.setNow(app.clock.nowMs() - HOUR_MS);
  expect((await client.redeem(code)).body.error).toBe('invalid_grant');
  expect((await client.redeem(unused)).body.error).toBe('invalid_grant');
  expect((await client.redeem(await codeFor(client, key))).status).toBe(200);
});
