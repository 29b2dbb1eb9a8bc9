// Keys of another form, which another system has made: imported by their hash, and presented wherever ours are.

import { expect, test } from 'bun:test';
import { hash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineTool, type ToolDeps } from '../../../src/start/package/index.ts';
import { rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { codeFor, register } from '../../support/hand-over.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { call, post, request } from '../../support/mcp.ts';
import { STORE_MODES, startStore } from '../../support/store-mode.ts';
import { bearer, COUNTED, createTestApp, listedKeys, type TestApp } from '../../support/test-app.ts';
import { noInput } from '../../support/tools.ts';

const FOREIGN = 'unkey_3ZHfVMUHmQ"8kq\\7xn2B';
const OTHER = 'another-key-of-that-form-1';
/** After this long every process knows of an import. */
const BOUND_MS = 10_000;

async function importing(app: TestApp, key: string, more: object = { foreign: true }): Promise<void> {
  const file = join(temporaryFolder(), 'keys.jsonl');
  const keyHash = hash('sha256', key, 'base64url');
  writeFileSync(
    file,
    JSON.stringify({ userId: 'alice', name: 'old one', keyHash, scopes: ['read', 'introspect'], ...more }),
  );
  await app.keys('import', file);
  app.clock.advance(BOUND_MS);
}

const form = (app: TestApp, path: string, token: string, headers: Record<string, string> = {}) =>
  fetch(`${app.url}${path}`, { method: 'POST', headers, body: new URLSearchParams({ token }) });

const byBearer = (app: TestApp, token: string) => post(app, call('get_data'), { authorization: `Bearer ${token}` });

const toolsShownTo = async (app: TestApp, token: string): Promise<string[]> => {
  const { body } = await post(app, request('tools/list'), { authorization: `Bearer ${token}` });
  return body.result.tools.map(({ name }: { readonly name: string }) => name);
};

test.each(rows(STORE_MODES, 1))('it is a key everywhere: %s', async (mode) => {
  await using store = await startStore(mode, temporaryFolder());
  await using app = await createTestApp({ store });
  await using beside = await createTestApp({ store, clock: app.clock });
  expect((await beside.useKey(FOREIGN)).status).toBe(401);
  await importing(app, FOREIGN);
  await importing(app, OTHER);
  for (const each of [app, beside]) {
    expect((await each.useKey(FOREIGN)).status).toBe(200);
    expect((await each.call('get_data', {}, { authorization: `Bearer ${FOREIGN}` })).status).toBe(200);
    expect((await byBearer(each, FOREIGN)).body.result.isError).toBeFalsy();
    expect(await toolsShownTo(each, FOREIGN)).toEqual(['whoami', 'get_data']);
    expect(await toolsShownTo(each, 'nobody-has-a-key-like-this')).toContain('create_api_key');
    const inMeta = call('get_data', {}, { _meta: { api_key: OTHER } });
    expect((await post(each, inMeta)).body.result.isError).toBeFalsy();
    const verified = await fetch(`${each.url}/verify`, { headers: { 'x-api-key': FOREIGN } });
    expect([verified.status, verified.headers.get('x-key-owner')]).toEqual([200, 'alice']);
    const asked = await form(each, '/introspect', OTHER, { 'x-api-key': FOREIGN });
    expect(await asked.json()).toMatchObject({ active: true, sub: 'alice' });
  }
  const shown = await keysCommand(store.env(), ['show', '-'], FOREIGN);
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining('old one')]);
  expect((await form(app, '/revoke', OTHER)).status).toBe(200);
  expect((await app.useKey(OTHER)).status).toBe(401);
  expect((await app.useKey(FOREIGN)).status).toBe(200);
});

test('rotation gives it a key of our form, and once the last is gone, a text of that form costs nothing', async () => {
  await using app = await createTestApp({ env: COUNTED });
  await importing(app, FOREIGN);
  const alice = await bearer(app, 'alice');
  const keyId = (await listedKeys(app, 'alice'))[0].id;
  const rotate = async (overlapHours: number) =>
    (await app.call('rotate_api_key', { keyId, overlapHours }, alice)).body.key;
  const next = await rotate(1);
  expect(next).toMatch(/^sk_test_[0-9a-f]{64}$/);
  for (const key of [FOREIGN, next, FOREIGN]) expect((await app.useKey(key)).status).toBe(200);
  await rotate(0);
  const before = await app.storeReads();
  for (const key of [FOREIGN, OTHER]) {
    expect((await app.useKey(key)).status).toBe(401);
    expect((await byBearer(app, key)).body.result.isError).toBe(true);
    expect((await form(app, '/revoke', key)).status).toBe(200);
  }
  expect(await app.storeReads()).toBe(before);
});

test('a hash without the mark, the shape of a JWT, and other lengths are no keys of another form', async () => {
  await using app = await createTestApp({ env: COUNTED });
  await importing(app, FOREIGN);
  await importing(app, OTHER, {});
  const never = [
    'a'.repeat(19),
    'a'.repeat(257),
    `eyJ${'a'.repeat(20)}.b.c`,
    `eyJ${'a'.repeat(20)}.b.`,
    'ä'.repeat(20),
  ];
  for (const key of never) await importing(app, key);
  expect((await app.useKey(OTHER)).status).toBe(401);
  await form(app, '/revoke', OTHER);
  const before = await app.storeReads();
  for (const key of never.slice(0, -1)) expect((await app.useKey(key)).status).toBe(401);
  expect(await app.storeReads()).toBe(before);
  for (const key of ['shortest-of-its-kind', 'longest-'.repeat(32)]) {
    await importing(app, key);
    expect((await app.useKey(key)).status).toBe(200);
  }
  const shown = JSON.parse(await app.keys('list', '--json').then((lines) => `[${lines.trim().replaceAll('\n', ',')}]`));
  expect(shown.every(({ active }: { active: boolean }) => active)).toBe(true); // no hash was revoked by its possession
});

const failing = ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    ...noInput('failing'),
    run: (_, { auth }) => {
      throw new Error(`with ${auth.token}`);
    },
  });

test('it is taken out of a path before that is cut, and so is one of our form', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1', TRUST_PROXY: '1' } });
  await importing(app, OTHER);
  const { key } = await app.createKey('alice');
  for (const presented of [OTHER, key]) {
    for (const chars of [1, presented.length - 1]) {
      const uri = `/${'x'.repeat(499 - chars)}${presented}`;
      await fetch(`${app.url}/verify`, { headers: { 'x-api-key': presented, 'x-forwarded-uri': uri } });
    }
  }
  const paths = (await app.log()).flatMap(({ path }) => (typeof path === 'string' ? [path.replace(/^.x+/, '')] : []));
  expect(paths).toEqual(['[', '[redacted]', '[', '[redacted]']);
});

test('so are both where they are percent-encoded, again and again, or in capitals, and the line stays JSON', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1', TRUST_PROXY: '1' } });
  const other = 'Ab+/cd=EF:"x\\y~gh0123456789';
  await importing(app, other);
  const { key } = await app.createKey('alice');
  const hex = (text: string) => [...text].map((one) => `%${one.charCodeAt(0).toString(16)}`).join('');
  const spellings = [
    ...[key, other].flatMap((one) => [encodeURIComponent(one), hex(one), hex(hex(one)), encodeURI(one)]),
    encodeURIComponent(other).toLowerCase().replace('ab', 'Ab').replace('ef', 'EF'),
    key.replaceAll('_', '%5F'),
    key.replace('_', '%5f').toUpperCase(),
  ];
  for (const spelling of spellings) {
    const headers = { 'x-api-key': other, 'x-forwarded-uri': `/a/${spelling}/%20"z`, 'user-agent': `a ${spelling} b` };
    await fetch(`${app.url}/verify`, { headers });
  }
  const lines = (await app.log()).filter(({ route }) => route === '/verify');
  for (const { path } of lines) expect(String(path).replace(/\[redacted\]|SK/g, '')).toBe('/a//%20"z');
  for (const { userAgent } of lines) expect(String(userAgent)).toMatch(/^a (?:SK)?\[/);
  expect(lines).toHaveLength(spellings.length);
});

test('it is taken out of every line, and a person may paste it', async () => {
  await using app = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback' }, tools: (deps) => [failing(deps)] });
  await importing(app, FOREIGN);
  const client = await register(app);
  const code = await codeFor(client, FOREIGN);
  expect((await client.redeem(code)).body.access_token).toBe(FOREIGN);
  const failed = await app.call('failing', {}, { 'x-api-key': FOREIGN });
  expect(failed.status).toBe(500);
  const log = await app.logText();
  expect(log).toContain('with [redacted]');
  expect(log + JSON.stringify(failed.body)).not.toContain('unkey_3ZH');
});
