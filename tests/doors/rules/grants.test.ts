// POST /token with a workload's token: both grant types.

import { describe, expect, test } from 'bun:test';
import { ACCESS_TOKEN, JWT_BEARER as BEARER, exchange } from '../../support/children.ts';
import { testClock } from '../../support/clock.ts';
import { adminOf, bearer, eventsIn, readResponse } from '../../support/test-app.ts';
import { SUBJECT, startWorkload, type Workload } from './workload.ts';

const JWT = 'urn:ietf:params:oauth:token-type:jwt';

type Fields = Readonly<Record<string, string | undefined>>;

async function bearerGrant({ app }: Workload, assertion: string, fields: Fields = {}) {
  const all = Object.entries({ grant_type: BEARER, assertion, ...fields });
  const body = new URLSearchParams(all.filter((field): field is [string, string] => field[1] !== undefined));
  return readResponse(await fetch(`${app.url}/token`, { method: 'POST', body }));
}

test('jwt-bearer gives a child of the key, with all scopes that the rule gives, named after the subject', async () => {
  await using workload = await startWorkload({}, ['read', 'write', 'delegate']);
  const { app, keyId, ruleId, issuer } = workload;
  const { status, body } = await bearerGrant(workload, await workload.token(), { client_id: 'ignored' });
  expect({ status, ...body }).toMatchObject({ status: 200, token_type: 'Bearer', scope: 'read write' });
  expect(body.issued_token_type).toBeUndefined();
  expect(body.expires_in).toBeLessThanOrEqual(300); // the token's end
  const who = (await app.call('whoami', {}, { 'x-api-key': body.access_token })).body;
  expect(who).toMatchObject({ parentId: keyId, name: SUBJECT, owner: 'acme', workload: null });
  expect((await eventsIn(app)).at(-1)).toMatchObject({
    kind: 'delegated',
    keyId,
    workload: { rule: ruleId, issuer: issuer.url, subject: SUBJECT },
  });
});

test('of a long subject a child has the first 200 characters as its name', async () => {
  await using workload = await startWorkload();
  const { app, keyId, issuer } = workload;
  const sub = `repo:acme/${'😀'.repeat(500)}`;
  await app.keys('rule', 'add', keyId, '--issuer', issuer.url, '--subject', sub);
  const { body } = await bearerGrant(workload, await workload.token({ sub }));
  const { name } = (await app.call('whoami', {}, { 'x-api-key': body.access_token })).body;
  expect(name).toBe(`repo:acme/${'😀'.repeat(190)}`);
});

test('living children of a rule are counted, though the key lacks the scope delegate', async () => {
  await using workload = await startWorkload({
    clock: testClock(Date.now()),
    env: { ADMIN_CLAIM: 'roles=keys-admin' },
  });
  const { app } = workload;
  const { body } = await bearerGrant(workload, await workload.token());
  const counts = async () => {
    const admin = await adminOf(app);
    const own = await bearer(app, 'acme');
    const listed = [await app.call('list_api_keys', {}, own), await app.call('admin_list_keys', {}, admin)];
    const shown = JSON.parse(await app.keys('list', '--json'));
    return [...listed.map(({ body }) => body.keys[0]), shown].map(({ children }) => children);
  };
  expect(await counts()).toEqual([1, 1, 1]);
  await app.call('revoke_api_key', { keyId: body.key_id }, await bearer(app, 'acme'));
  expect(await counts()).toEqual([undefined, undefined, undefined]);
});

test('a token may end within a millisecond: its end is rounded', async () => {
  await using workload = await startWorkload();
  const { app } = workload;
  const exp = Math.floor(app.clock.nowMs() / 1000) + 100.12345;
  const token = await workload.token({ exp });
  const expiresAt = Math.round(exp * 1000);
  expect((await app.call('whoami', {}, { 'x-api-key': token })).body).toMatchObject({ expiresAt });
  const { status, body } = await bearerGrant(workload, token);
  expect({ status, livesS: body.expires_in }).toEqual({ status: 200, livesS: 100 });
  expect((await app.call('whoami', {}, { 'x-api-key': body.access_token })).body).toMatchObject({ expiresAt });
});

test.each<[string, Fields, number, string]>([
  ['scopes beyond those of the key', { scope: 'read admin openid' }, 200, 'read'],
  ['an empty scope', { scope: '' }, 400, 'invalid_scope'],
  ['scopes that the key has not', { scope: 'admin' }, 400, 'invalid_scope'],
  ['delegate', { scope: 'delegate' }, 400, 'invalid_scope'],
  ['no assertion', { assertion: '' }, 400, 'invalid_request'],
  ['a life of a second', { expires_in: '1' }, 400, 'invalid_request'],
  ['another type wanted', { requested_token_type: JWT }, 400, 'invalid_request'],
  ['an audience', { audience: 'https://tools.example' }, 400, 'invalid_request'],
  ['an actor', { actor_token: 'x' }, 400, 'invalid_request'],
  ['another server', { resource: 'https://other.example' }, 400, 'invalid_target'],
])('jwt-bearer with %s', async (_, fields, status, said) => {
  await using workload = await startWorkload();
  const answer = await bearerGrant(workload, await workload.token(), fields);
  expect({ status: answer.status, said: answer.body.error ?? answer.body.scope }).toEqual({ status, said });
});

test('a token that no rule lets in is invalid_grant, with the request by which the log says why', async () => {
  await using workload = await startWorkload();
  const { app } = workload;
  const { status, body } = await bearerGrant(workload, await workload.token({ sub: 'another' }));
  expect({ status, error: body.error }).toEqual({ status: 400, error: 'invalid_grant' });
  const requestId = /request (\S+)$/.exec(body.error_description)?.[1];
  expect(await app.log()).toContainEqual(expect.objectContaining({ requestId, reason: 'no rule', subject: 'another' }));
});

describe('token-exchange', () => {
  test.each<[string, (workload: Workload) => Promise<string> | string, string, number]>([
    ['a token as a JWT', (workload) => workload.token(), JWT, 200],
    ['a token as an id_token', (workload) => workload.token(), 'urn:ietf:params:oauth:token-type:id_token', 200],
    ['a token as an access token', (workload) => workload.token(), ACCESS_TOKEN, 400],
    ['a key as a JWT', ({ key }) => key, JWT, 400],
  ])('of %s', async (_, presented, type, expected) => {
    await using workload = await startWorkload({}, ['read', 'delegate']);
    const { status, body } = await exchange(workload.app, await presented(workload), { subject_token_type: type });
    expect(status).toBe(expected);
    if (status === 200) expect(body).toMatchObject({ scope: 'read', issued_token_type: ACCESS_TOKEN });
    else expect(body.error).toBe('invalid_grant');
  });

  test('a child of a rule ends with the rule, within the bound', async () => {
    await using workload = await startWorkload();
    const { app, ruleId } = workload;
    const { body } = await exchange(app, await workload.token(), { subject_token_type: JWT });
    expect((await app.useKey(body.access_token)).status).toBe(200);
    await app.keys('rule', 'remove', ruleId);
    app.clock.advance(1000);
    expect((await app.useKey(body.access_token)).status).toBe(401);
  });
});
