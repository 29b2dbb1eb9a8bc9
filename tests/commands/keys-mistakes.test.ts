// `keys` in the hands of a person in a hurry: a wrong path, half a command, a shell without the server's secrets, a reader
// that leaves. No server runs here.

import { beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeCertificate } from '../support/certificate.ts';
import { temporaryFolder } from '../support/folder.ts';
import { keysCommand, keysInto } from '../support/keys-command.ts';
import { startSqld } from '../support/sqld.ts';
import { storeOn } from '../support/store-mode.ts';
import { actorFor, createTestApp, TEST_SECRET } from '../support/test-app.ts';

const folder = temporaryFolder();
const env = { DATABASE_URL: `file:${join(folder, 'keys.db')}` };
const keys = (...args: string[]) => keysCommand(env, args);
const KEY = `sk_live_${'0'.repeat(64)}`;

let created: { readonly id: string; readonly fingerprints: readonly string[] };
beforeAll(async () => {
  await using app = await createTestApp({ store: 'embedded', folder });
  const { keys } = app.service.keyDomain;
  const made = await keys.create(actorFor('alice'), { name: 'a', scopes: [] });
  if (!made.ok) throw new Error('no key');
  const { id } = made.value.record;
  const rotated = await keys.rotate(actorFor('alice'), id, 24);
  if (!rotated.ok) throw new Error('not rotated');
  const fingerprintOf = (key: string) => Bun.SHA256.hash(key, 'hex').slice(0, 12);
  created = { id, fingerprints: [made.value.key, rotated.value.key].map(fingerprintOf) };
});

describe('a path where nothing is', () => {
  const verbs = [['list'], ['create', '--user', 'u', '--name', 'n'], ['block', 'u'], ['backup', 'b.db'], ['doctor']];
  test.each(verbs.map((args) => ({ args })))('$args makes no database there', async ({ args }) => {
    const path = join(temporaryFolder(), 'mistyped.db');
    const { code, stdout, stderr } = await keysCommand({ DATABASE_URL: `file:${path}` }, args);
    expect({ code, said: stdout + stderr }).toEqual({
      code: 1,
      said: expect.stringContaining('there is no database at'),
    });
    expect(existsSync(path)).toBe(false);
  });
});

const WRONG = [
  ['list', 'alice'],
  ['doctor', 'now'],
  ['create', '--user', 'u', '--name', 'n', 'read'],
  ['backup', 'a.db', 'b.db'],
  ['block', 'alice', 'bob'],
  ['events', '--limit', '0'],
  ['events', '5'],
];
test.each(WRONG.map((args) => ({ args })))('$args is a wrong usage, which says the right one', async ({ args }) => {
  const { code, stdout, stderr } = await keys(...args);
  expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: '', stderr: expect.stringContaining('usage: ') });
});

test('the secret of user tokens is not needed, but doctor misses it', async () => {
  const production = { ...env, NODE_ENV: 'production' };
  expect(await keysCommand(production, ['list'])).toMatchObject({ code: 0, stderr: '' });
  const created = await keysCommand(production, ['create', '--user', 'bob', '--name', 'n']);
  expect(created.stdout).toStartWith('sk_live_');
  const { code, stdout } = await keysCommand(production, ['doctor']);
  expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(/^bad +configuration +JWT_SECRET: /) });
});

test('a key is found by the fingerprint of each of its secrets', async () => {
  for (const fingerprint of created.fingerprints) {
    const { stdout } = await keys('show', fingerprint, '--json');
    expect(JSON.parse(stdout).id).toBe(created.id);
  }
  expect((await keys('show', 'f'.repeat(12))).code).toBe(1);
});

test('block says how many keys the owner has, because 0 may be a slip; no key is repeated', async () => {
  expect((await keys('block', 'alcie')).stderr).toBe('"alcie" is blocked, with 0 active keys\n');
  expect((await keys('unblock', 'alice')).stderr).toBe('"alice" is not blocked already, with 1 active key\n');
  expect((await keys('block', KEY)).stderr).not.toContain(KEY);
});

test('create refuses for an owner who is blocked', async () => {
  await keys('block', 'mallory');
  const { code, stdout, stderr } = await keys('create', '--user', 'mallory', '--name', 'n');
  expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: expect.stringContaining('is blocked') });
  expect((await keys('list', '--user', 'mallory', '--json')).stdout).toBe('');
});

test('a date is midnight of the reader, not of UTC', async () => {
  const file = join(temporaryFolder(), 'keys.jsonl');
  const made = { userId: 'dated', name: 'n', keyHash: 'd'.repeat(64), scopes: [], createdAt: '2026-01-31T06:00:00Z' };
  writeFileSync(file, JSON.stringify(made));
  expect((await keys('import', file)).code).toBe(0);
  const listed = async (TZ: string) =>
    (await keysCommand({ ...env, TZ }, ['list', '--user', 'dated', '--created-after', '2026-01-31', '--json'])).stdout;
  expect(await listed('UTC')).toContain('dated');
  expect(await listed('Etc/GMT+12')).toBe(''); // there the day begins at noon in UTC
  expect(await keys('list', '--created-after', '2026-01-31 noon')).toMatchObject({ code: 2 });
});

test('list ends in silence when its reader leaves; create says that the key is lost', async () => {
  const lines = Array.from({ length: 2000 }, (_, index) =>
    JSON.stringify({ userId: `u${index}`, name: 'n', keyHash: Bun.SHA256.hash(`${index}`, 'hex'), scopes: [] }),
  );
  const file = join(temporaryFolder(), 'keys.jsonl');
  writeFileSync(file, lines.join('\n'));
  expect((await keys('import', file)).code).toBe(0);
  expect(await keysInto('head -1', env, ['list'])).toMatchObject({ code: 0, stderr: '' });
  const created = await keysInto('true', env, ['create', '--user', 'u', '--name', 'n']);
  expect(created).toMatchObject({ code: 1, stderr: expect.stringContaining('could not be printed') });
});

test('a hash that is twice in a file is imported once, and counted so', async () => {
  const file = join(temporaryFolder(), 'keys.jsonl');
  const keyHash = 'a'.repeat(64);
  writeFileSync(
    file,
    ['x', 'y'].map((userId) => JSON.stringify({ userId, name: 'n', keyHash, scopes: [] })).join('\n'),
  );
  expect(await keys('import', file)).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('1 imported, 1 were there already'),
  });
});

test('a backup that fails leaves no file, and says why in our words', async () => {
  const target = temporaryFolder();
  await using sqld = await startSqld({ auth: true });
  await using _ = await createTestApp({
    env: sqld.env,
    store: { env: () => sqld.env, async [Symbol.asyncDispose]() {} },
  });
  const expired = { ...sqld.env, DATABASE_AUTH_TOKEN: await sqld.token({ a: 'rw', exp: 1000 }) };
  expect(await keysCommand(expired, ['backup', join(target, 'b.db')])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('DATABASE_AUTH_TOKEN: expected a token'),
  });
  writeFileSync(join(target, 'notes.txt'), 'not a database');
  const other = { DATABASE_URL: `file:${join(target, 'notes.txt')}` };
  expect((await keysCommand(other, ['backup', join(target, 'b.db')])).code).toBe(1);
  expect(readdirSync(target)).toEqual(['notes.txt']);
  expect(readFileSync(join(target, 'notes.txt'), 'utf8')).toBe('not a database');
});

const DAY_MS = 86_400_000;
test.each([
  { days: 15, state: 'ok certificate it ends at ', code: 0 },
  { days: 13, state: 'note certificate it ends at ', code: 0 },
  { days: -1, state: 'bad certificate it ended at ', code: 1 },
])('doctor looks at a certificate that ends in $days days', async ({ days, state, code }) => {
  const { certFile, keyFile } = makeCertificate(new Date(Date.now() + days * DAY_MS));
  const settings = { ...env, JWT_SECRET: TEST_SECRET, TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile };
  const found = await keysCommand(settings, ['doctor']);
  expect({ code: found.code, stdout: found.stdout.replace(/ +/g, ' ') }).toEqual({
    code,
    stdout: expect.stringContaining(state),
  });
});

test('doctor says which TLS file cannot be used', async () => {
  const { certFile } = makeCertificate();
  const settings = { ...env, JWT_SECRET: TEST_SECRET, TLS_CERT_FILE: certFile, TLS_KEY_FILE: certFile };
  const { code, stdout } = await keysCommand(settings, ['doctor']);
  expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(/^bad +certificate +TLS_KEY_FILE: /m) });
});

test('restore says that the file is not there, and does nothing', async () => {
  const { code, stderr } = await keys('restore', 'mistyped.db');
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: 'keys: expected a backup that can be read, got "mistyped.db" (ENOENT)\n',
  });
});

test('doctor finds a database that takes no writes', async () => {
  await using sqld = await startSqld();
  const settings = { ...env, ...sqld.env };
  await using _ = await createTestApp({ store: storeOn(sqld.env) });
  await sqld.blockWrites(true);
  const { code, stdout } = await keysCommand(settings, ['doctor']);
  expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(/^bad +database /m) });
});
