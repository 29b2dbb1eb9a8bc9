// A workload's token in place of a key, over HTTP.

import { describe, expect, test } from 'bun:test';
import { exchange, JWT_BEARER } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { databaseOf, executeAt } from '../../support/database-client.ts';
import { createIssuer, createKey } from '../../support/issuer.ts';
import { openSse, post, request } from '../../support/mcp.ts';
import { bearer, COUNTED, eventsIn, metricsOf } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { SUBJECT, startWorkload, type Workload } from './workload.ts';

/** How long a key set is good, how long it lasts while the issuer is away, a fetch, and a pause after one that failed. */
const SET_MS = 5 * 60_000;
const SET_LASTS_MS = 60 * 60_000;
const FETCH_MS = 5000;
const PAUSE_MS = 10_000;

test('a token that a rule lets in acts as the key of the rule, in each place of a key', async () => {
  await using workload = await startWorkload();
  const { app, keyId } = workload;
  const token = await workload.token();
  const inBody = await app.call('get_data', { _meta: { api_key: token } }, {});
  const asBearer = await app.call('get_data', {}, { authorization: `Bearer ${token}` });
  const asHeader = await app.useKey(token);
  for (const { status, body } of [inBody, asBearer, asHeader]) {
    expect({ status, owner: body.owner, id: body.key.id }).toEqual({ status: 200, owner: 'acme', id: keyId });
  }
  const { body } = await app.call('whoami', {}, { 'x-api-key': token });
  expect(body.workload).toEqual({ issuer: workload.issuer.url, subject: SUBJECT });
  expect((await app.call('whoami', {}, { 'x-api-key': workload.key })).body.workload).toBeNull();
});

test('what only begins like a token is malformed, however long it is', async () => {
  await using workload = await startWorkload();
  const token = await workload.token({ pad: 'x'.repeat(500) });
  const [header = '', payload = '', signature = ''] = token.split('.');
  const others = [
    `${token}=`,
    `${token}.x`,
    `${header}.${payload}!.${signature}`,
    `${header}.${payload}`,
    'eyJ'.repeat(200),
  ];
  for (const text of ['eyJ!', ...others]) expect(await workload.use(text)).toBe(401);
  const refusals = (await workload.app.log()).filter(({ event }) => event === 'Invalid or expired API key');
  expect(refusals.map(({ reason }) => reason)).toEqual(Array(1 + others.length).fill('malformed'));
  expect(await workload.use(token)).toBe(200);
});

test('the log says of each use who it was: the key, or which workload by which rule', async () => {
  await using workload = await startWorkload();
  const { app, key, keyId, ruleId, issuer } = workload;
  const several = ['--issuer', issuer.url, '--subject', 'repo:acme/other:*'];
  const pattern = (await app.keys('rule', 'add', keyId, ...several)).trim();
  app.clock.advance(1000);
  expect((await app.useKey(key)).status).toBe(200);
  for (const sub of [SUBJECT, 'repo:acme/other:a', 'repo:acme/other:b']) {
    expect(await workload.use(await workload.token({ sub }))).toBe(200);
  }
  expect((await app.useKey(key)).status).toBe(200);
  const uses = (await app.log()).filter(({ event }) => event === 'API key authentication successful');
  expect(uses.map(({ rule, subject }) => ({ rule, subject }))).toEqual([
    { rule: undefined, subject: undefined },
    { rule: ruleId, subject: SUBJECT },
    { rule: pattern, subject: 'repo:acme/other:a' },
    { rule: pattern, subject: 'repo:acme/other:b' },
    { rule: undefined, subject: undefined },
  ]);
});

test('the access log says whose token it was, also of one that is refused with its key', async () => {
  await using workload = await startWorkload({ env: { ACCESS_LOG: '1' } });
  const { app, key, keyId, ruleId, issuer } = workload;
  const token = await workload.token();
  const wrong = await workload.token({}, { key: await createKey('ES256', 'first') });
  expect([await workload.use(token), (await app.useKey(key)).status, await workload.use(wrong)]).toEqual([
    200, 200, 401,
  ]);
  await post(app, request('tools/list'), { 'x-api-key': token });
  await app.keys('revoke', keyId, '--yes');
  app.clock.advance(1000);
  expect([await workload.use(token), (await app.useKey(key)).status]).toEqual([401, 401]);
  await post(app, request('tools/list'), { 'x-api-key': token });
  const lines = (await app.log()).filter(({ event }) => event === 'request').slice(-7);
  const ofRule = { keyId, owner: 'acme', rule: ruleId, workload: { issuer: issuer.url, subject: SUBJECT } };
  const ofKey = { keyId, owner: 'acme', rule: undefined, workload: undefined };
  const ofNobody = { keyId: undefined, owner: undefined, rule: undefined, workload: undefined };
  expect(lines.map(({ keyId, owner, rule, workload }) => ({ keyId, owner, rule, workload }))).toEqual([
    ofRule,
    ofKey,
    ofNobody,
    ofRule,
    ofRule,
    ofKey,
    ofRule,
  ]);
});

test('a refusal of the key says in the log whose token it was, and of a long subject its beginning', async () => {
  await using workload = await startWorkload();
  const { app, keyId, ruleId, issuer } = workload;
  const token = await workload.token();
  expect(await workload.use(await workload.token({ sub: 'x'.repeat(300) }))).toBe(401);
  await app.keys('revoke', keyId, '--yes');
  app.clock.advance(1000);
  expect(await workload.use(token)).toBe(401);
  const refused = (await app.log()).filter(({ event }) => event === 'Invalid or expired API key');
  expect(refused).toMatchObject([
    { reason: 'no rule', issuer: issuer.url, subject: 'x'.repeat(200), rules: 1 },
    { reason: 'revoked', issuer: issuer.url, subject: SUBJECT, rule: ruleId, keyId, userId: 'acme' },
  ]);
});

test('terms of no sense that were typed into the database let nobody in, and no other rule suffers', async () => {
  await using workload = await startWorkload({ store: 'embedded' });
  const { app, keyId, ruleId, issuer } = workload;
  await app.keys('rule', 'add', keyId, '--issuer', issuer.url, '--subject', 'another');
  for (const [audiences, claims] of [
    ['[]', '[5]'],
    ['[]', '[null]'],
    ['[]', '[{}]'],
    ['[5, null, {}]', '[]'],
    ["['https://elsewhere.example',]", '[]'], // JSON5, which SQLite takes for JSON
  ]) {
    await executeAt(databaseOf(app), {
      sql: 'UPDATE rules SET audiences = ?, claims = ? WHERE id = ?',
      args: [audiences, claims, ruleId],
    });
    app.clock.advance(1000);
    const jti = `${audiences} ${claims}`;
    expect([jti, await workload.use(await workload.token({ jti }))]).toEqual([jti, 401]);
    expect([jti, await workload.use(await workload.token({ jti, sub: 'another' }))]).toEqual([jti, 200]);
    expect((await app.keys('rule', 'list')).split('\n')).toHaveLength(4);
  }
});

test('an issuer that was typed into the database, and is none, is an outage of its own: nothing is fetched in clear text', async () => {
  await using workload = await startWorkload({ store: 'embedded' });
  const { app, ruleId } = workload;
  for (const iss of ['tokens.example', 'http://192.0.2.1', '']) {
    await executeAt(databaseOf(app), { sql: 'UPDATE rules SET issuer = ? WHERE id = ?', args: [iss, ruleId] });
    app.clock.advance(1000);
    expect([iss, await workload.use(await workload.token({ iss }))]).toEqual([iss, 503]);
    expect((await app.log()).at(-1)).toMatchObject({ issuer: iss, reason: 'the issuer is no https URL' });
  }
});

test('a token that is remembered costs no read and no fetch', async () => {
  await using workload = await startWorkload({ env: COUNTED });
  const { app, issuer } = workload;
  const token = await workload.token();
  expect(await workload.use(token)).toBe(200);
  const [reads, fetches] = [await app.storeReads(), issuer.hits('/jwks')];
  for (let calls = 0; calls < 3; calls += 1) expect(await workload.use(token)).toBe(200);
  expect(await workload.use(await workload.token({ jti: 'another' }))).toBe(200);
  expect([await app.storeReads(), issuer.hits('/jwks')]).toEqual([reads, fetches]);
});

describe('what ends', () => {
  test.each<[string, number, (workload: Workload) => Promise<unknown>]>([
    ['the rule', 401, ({ app, ruleId }) => app.keys('rule', 'remove', ruleId)],
    ['the key, revoked', 401, ({ app, keyId }) => app.keys('revoke', keyId, '--yes')],
    [
      'the key, deleted',
      401,
      async ({ app, keyId }) => app.call('delete_api_key', { keyId }, await bearer(app, 'acme')),
    ],
    ['its owner, blocked', 401, ({ app }) => app.keys('block', 'acme', '--yes')],
    ['its scope', 403, ({ app, keyId }) => app.keys('update', keyId, '--scope', 'write')],
    ['its owner, deleted', 401, ({ app }) => app.keys('owner', 'acme', '--delete', '--yes')],
  ])('%s ends the token with it, within the bound', async (_, status, end) => {
    await using workload = await startWorkload();
    const { app } = workload;
    const token = await workload.token();
    expect(await workload.use(token)).toBe(200);
    await end(workload);
    app.clock.advance(1000);
    expect(await workload.use(token)).toBe(status);
  });

  test('a rotation, which does not', async () => {
    await using workload = await startWorkload();
    const { app, keyId } = workload;
    const token = await workload.token();
    expect(await workload.use(token)).toBe(200);
    const rotated = await app.call('rotate_api_key', { keyId, overlapHours: 0 }, await bearer(app, 'acme'));
    expect(rotated.status).toBe(200);
    app.clock.advance(1000);
    expect(await workload.use(token)).toBe(200);
  });
});

test('a rule gives what the key then has of its scopes', async () => {
  await using workload = await startWorkload({}, ['read', 'write']);
  const { app, keyId, ruleId } = workload;
  await app.keys('rule', 'remove', ruleId);
  await workload.addRule('--scope', 'read');
  const token = await workload.token();
  const scopesOf = async () => (await app.call('whoami', {}, { 'x-api-key': token })).body.scopes;
  expect(await scopesOf()).toEqual(['read']);
  await app.keys('update', keyId, '--scope', 'write');
  app.clock.advance(1000);
  expect(await scopesOf()).toEqual([]);
});

test.each<[string, Record<string, unknown>, Record<string, unknown>, string]>([
  ['another audience', { aud: 'https://other.example' }, {}, 'no rule'],
  ['another subject', { sub: 'repo:acme/app:ref:refs/heads/dev' }, {}, 'no rule'],
  ['an end that has come', { exp: 1 }, {}, 'expired'],
  ['a proof of possession', { cnf: { jkt: 'a' } }, {}, 'claims'],
  ['no iat', { iat: undefined }, {}, 'lifetime'],
  ['a type of another profile', {}, { typ: 'logout+jwt' }, 'header'],
  ['a critical header', {}, { crit: ['b64'], b64: true }, 'header'],
  ['a key id that the issuer does not have', {}, { kid: 'made up' }, 'unknown kid'],
])('a token with %s is refused, and the log says why', async (_, claims, header, reason) => {
  await using workload = await startWorkload();
  const { app, issuer } = workload;
  const token = await workload.token(claims, { header });
  const { status, body } = await app.useKey(token);
  expect({ status, code: body.code, detail: body.detail }).toEqual({
    status: 401,
    code: 'invalid_api_key',
    detail: 'Invalid or expired API key',
  });
  const lines = await app.log();
  const line = lines.find(({ event }) => event === 'Invalid or expired API key');
  expect(line).toMatchObject({ reason, issuer: issuer.url });
  expect(JSON.stringify(lines)).not.toContain('eyJ');
});

test('a token by a key of another issuer is refused', async () => {
  await using workload = await startWorkload();
  const key = await createKey('ES256', 'first');
  expect(await workload.use(await workload.token({}, { key }))).toBe(401);
  expect((await workload.app.log()).at(-1)).toMatchObject({ reason: 'signature' });
});

test('what operators do with rules is in the trail', async () => {
  await using workload = await startWorkload();
  const { app, issuer, keyId, ruleId } = workload;
  await app.keys('rule', 'remove', ruleId);
  const of = { keyId, how: 'command', workload: { rule: ruleId, issuer: issuer.url, subject: SUBJECT } };
  expect((await eventsIn(app)).slice(-2)).toMatchObject([
    { kind: 'rule_added', ...of },
    { kind: 'rule_removed', ...of },
  ]);
});

test('lists and the history of a key say which rules it has, and --no-secret makes a key for rules alone', async () => {
  await using workload = await startWorkload();
  const { app, keyId, issuer } = workload;
  const acme = await bearer(app, 'acme');
  const { body } = await app.call('list_api_keys', {}, acme);
  expect(body.keys).toMatchObject([{ id: keyId, rules: 1 }]);
  expect(JSON.parse(await app.keys('show', keyId, '--json'))).toMatchObject({
    rules: [{ id: workload.ruleId, subject: SUBJECT, keySet: 'fetch' }],
  });
  expect(await app.keys('show', keyId)).toContain(`\n${workload.ruleId}  ${issuer.url}  ${SUBJECT}  default`);
  expect(JSON.parse(await app.keys('list', '--json'))).toMatchObject({ rules: 1 });
  const history = await postJson(`${app.url}/keys/events`, { keyId }, { ...acme, origin: 'https://tools.example' });
  expect((await history.json()).events[0]).toMatchObject({
    kind: 'rule_added',
    actor: 'an admin',
    workload: { issuer: issuer.url, subject: SUBJECT },
  });
  const id = (await app.keys('create', '--user', 'acme', '--name', 'n', '--no-secret')).trim();
  expect(id).toMatch(/^[0-9a-f]{32}$/);
  expect(JSON.parse(await app.keys('show', id, '--json')).rules).toBeUndefined();
});

test('while the issuer is away its old set is used for an hour, and nobody waits; then 503; and back in 10 s', async () => {
  await using workload = await startWorkload();
  const { app, issuer, use } = workload;
  const known = await workload.token({ exp: Math.floor(app.clock.nowMs() / 1000) + 2 * 3600 });
  const fields = { expires_in: '7200', subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' };
  const child = (await exchange(app, known, fields)).body.access_token;
  const useAll = async () => {
    const another = await workload.token({ jti: crypto.randomUUID() });
    return Promise.all([known, another, child].map((one) => use(one)));
  };
  expect(await useAll()).toEqual([200, 200, 200]);
  const answered = Promise.withResolvers<Response>();
  issuer.overrides.set('/jwks', () => answered.promise);

  app.clock.advance(SET_MS);
  const fetches = issuer.hits('/jwks');
  const first = use(known); // nobody knows yet that the issuer is away
  await waitFor(() => issuer.hits('/jwks') > fetches);
  app.clock.advance(500);
  expect(await first).toBe(200);
  expect(await useAll()).toEqual([200, 200, 200]); // the clock stands: who waited for the same fetch would wait for ever
  app.clock.advance(FETCH_MS);
  const said = async () => (await app.log()).filter(({ event }) => event.startsWith('key set '));
  await waitFor(async () => (await said()).length > 0);
  // From here on the clock stands while tokens are used: who waited for the issuer would wait for ever.
  let passedMs = SET_MS + 500 + FETCH_MS;
  for (const stepMs = 6 * 60_000; passedMs + stepMs < SET_LASTS_MS; passedMs += stepMs) {
    app.clock.advance(stepMs);
    expect(await useAll()).toEqual([200, 200, 200]);
  }
  app.clock.advance(SET_LASTS_MS - passedMs - 1);
  expect(await useAll()).toEqual([200, 200, 200]);

  issuer.overrides.set('/jwks', () => new Response('', { status: 503 }));
  answered.resolve(new Response('', { status: 503 }));
  app.clock.advance(1);
  expect(await useAll()).toEqual([503, 503, 200]); // a child needs no issuer
  issuer.overrides.clear();
  app.clock.advance(PAUSE_MS);
  expect(await useAll()).toEqual([200, 200, 200]);
  expect(await said()).toMatchObject([
    { event: 'key set out of reach', issuer: issuer.url },
    { event: 'key set back', issuer: issuer.url },
  ]);
});

test('an issuer that is away is asked every 10 s at most', async () => {
  await using workload = await startWorkload();
  const { app, issuer, use } = workload;
  issuer.overrides.set('/jwks', () => new Response('', { status: 503 }));
  const useMany = async () => {
    const tokens = await Promise.all(Array.from({ length: 5 }, (_, jti) => workload.token({ jti })));
    for (const token of tokens) expect(await use(token)).toBe(503);
  };
  await useMany();
  expect(issuer.hits('/jwks')).toBe(1);
  app.clock.advance(PAUSE_MS - 1);
  await useMany();
  expect(issuer.hits('/jwks')).toBe(1);
  app.clock.advance(1);
  await useMany();
  expect(issuer.hits('/jwks')).toBe(2);
});

test('an issuer that responds has its turn behind twelve that hang, and is not taken for one of them', async () => {
  await using workload = await startWorkload();
  const { app, issuer, use } = workload;
  await using hung = await createIssuer();
  const issuers = Array.from({ length: 12 }, (_, nth) => `${hung.url}/${nth}`);
  let asked = 0;
  for (const url of issuers) {
    hung.overrides.set(new URL(url).pathname, () => {
      asked += 1;
      return new Promise(() => {});
    });
    await executeAt(databaseOf(app), {
      sql: `INSERT INTO rules (id, key_id, hash, issuer, subject, audiences, claims, created_at_ms)
SELECT ?1, key_id, ?1, ?1, subject, audiences, claims, 0 FROM rules WHERE row = 1`,
      args: [url],
    });
    await executeAt(databaseOf(app), { sql: 'INSERT INTO issuers (issuer, jwks) VALUES (?1, ?1)', args: [url] });
  }
  app.clock.advance(1000);
  const tokens = await Promise.all(issuers.map((iss) => workload.token({ iss })));
  const statuses = tokens.map(use);
  await waitFor(() => asked === 4);
  const others = async () => {
    for (const _ of Array(5)) await fetch(`${app.url}/mcp/health`); // meanwhile what was sent before has arrived
  };
  await others();
  const good = use(await workload.token());
  await others();
  for (const began of [8, 12]) {
    app.clock.advance(FETCH_MS);
    await Promise.race([good, waitFor(() => asked === began)]);
  }
  app.clock.advance(FETCH_MS);
  expect(await good).toBe(200);
  expect(await Promise.all(statuses)).toEqual(issuers.map(() => 503));
  expect(issuer.hits('/jwks')).toBe(1);
});

test('while an issuer was never reached its tokens are 503 everywhere, by the name that each protocol has', async () => {
  await using workload = await startWorkload({ env: COUNTED }, ['read', 'introspect']);
  const { app, issuer, key } = workload;
  issuer.overrides.set('/jwks', () => new Response('', { status: 500 }));
  const token = await workload.token();
  const said = async (path: string, fields: Record<string, string>, caller = '') => {
    const body = new URLSearchParams(fields);
    const response = await fetch(app.url + path, { method: 'POST', body, headers: { 'x-api-key': caller } });
    return [response.status, (await response.json()).error, response.headers.get('retry-after')];
  };
  expect(await workload.use(token)).toBe(503);
  const unavailable = [503, 'temporarily_unavailable', '1'];
  expect(await said('/token', { grant_type: JWT_BEARER, assertion: token })).toEqual(unavailable);
  expect(await said('/introspect', { token }, key)).toEqual(unavailable);
  expect(await said('/introspect', { token: key }, token)).toEqual(unavailable);
  expect(await said('/changes', {}, token)).toEqual(unavailable);
  const metrics = await metricsOf(app.url);
  for (const [result, count] of Object.entries({ refused: 0, unavailable: 4 })) {
    expect(metrics).toContain(`\nmcp_keys_verifications_total{result="${result}"} ${count}\n`);
  }
});

test('a token that has run out is 401 on a session of its workload, which goes on with the next one', async () => {
  await using workload = await startWorkload();
  const { app } = workload;
  const nowS = Math.floor(app.clock.nowMs() / 1000);
  const session = await openSse(app, { 'x-api-key': await workload.token() });
  const ping = async (token: string) =>
    (await session.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, { 'x-api-key': token })).status;
  expect(await ping(await workload.token({ iat: nowS - 60, exp: nowS - 1 }))).toBe(401);
  expect(await ping(await workload.token({ jti: 'next' }))).toBe(202);
  expect(await ping(await workload.token({ sub: 'another' }))).toBe(404);
});

test('a key that the issuer takes out is refused after five minutes', async () => {
  await using workload = await startWorkload();
  const { app, issuer } = workload;
  const [old] = issuer.keys;
  const token = await workload.token({ exp: Math.floor(app.clock.nowMs() / 1000) + 3600 });
  expect(await workload.use(token)).toBe(200);
  issuer.keys = [await createKey('ES256', 'second')];
  app.clock.advance(5 * 60_000 + 1);
  expect(await workload.use(token)).toBe(401);
  expect(await workload.use(await workload.token({}, { key: old as never }))).toBe(401);
  expect(await workload.use(await workload.token())).toBe(200);
});

test('a key set that is given anew counts within the bound', async () => {
  await using workload = await startWorkload();
  const { app, issuer } = workload;
  const token = await workload.token();
  expect(await workload.use(token)).toBe(200);
  const file = `${app.folder}/jwks.json`;
  await Bun.write(file, JSON.stringify({ keys: [(await createKey('ES256', 'first')).jwk] }));
  expect(await workload.addRule('--jwks', file)).toBe(workload.ruleId);
  app.clock.advance(1000);
  expect(await workload.use(token)).toBe(401);
  await Bun.write(file, JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }));
  await workload.addRule('--jwks', file);
  app.clock.advance(1000);
  expect(await workload.use(token)).toBe(200);
  await workload.addRule('--jwks', issuer.jwksUrl); // on loopback, as the issuer is
  app.clock.advance(1000);
  expect(await workload.use(token)).toBe(200);
  expect(issuer.hits('/jwks')).toBe(2);
});

test.each([
  // Both are of keys that the issuer does not publish.
  ['REPLACE', (issuer: string, unknown: string) => `REPLACE INTO issuers VALUES ('${issuer}', '${unknown}')`, 'issuer'],
  ['DELETE', (issuer: string) => `DELETE FROM issuers WHERE issuer = '${issuer}'`, 'given'],
] as const)('a key set that a shell changes by %s counts within the bound', async (_, sql, signedBy) => {
  await using workload = await startWorkload({ store: 'embedded' });
  const { app, issuer } = workload;
  const other = await createKey('ES256', 'first');
  const unknown = JSON.stringify({ keys: [other.jwk] });
  if (signedBy === 'given') {
    const file = `${app.folder}/jwks.json`;
    await Bun.write(file, unknown);
    await workload.addRule('--jwks', file);
    app.clock.advance(1000);
  }
  const token = await workload.token({}, signedBy === 'given' ? { key: other } : {});
  expect(await workload.use(token)).toBe(200);
  await executeAt(databaseOf(app), sql(issuer.url, unknown));
  app.clock.advance(1000);
  expect(await workload.use(token)).toBe(401);
});
