// `keys` in the hands of a person in a hurry: a wrong path, half a command, a shell without the server's secrets, a reader
// that leaves. No server runs here.

import { beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clockFinding } from '../../src/commands/keys/doctor.ts';
import { makeCertificate } from '../support/certificate.ts';
import { run } from '../support/command.ts';
import { executeAt } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import {
  jsonLines,
  keysCommand,
  keysInto,
  keysIntoNothing,
  keysProcess,
  keysTo,
  startKeys,
} from '../support/keys-command.ts';
import { startProxy } from '../support/proxy.ts';
import { runnerOf } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { storeOn } from '../support/store-mode.ts';
import { bearer, createTestApp, fingerprint, TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const folder = temporaryFolder();
const env = { DATABASE_URL: `file:${join(folder, 'keys.db')}` };
const keys = (...args: string[]) => keysCommand(env, args);
const KEY = `sk_live_${'0'.repeat(64)}`;
const KEY_ID = '0'.repeat(32);

let created: { readonly id: string; readonly fingerprints: readonly string[] };
beforeAll(async () => {
  await using app = await createTestApp({ store: 'embedded', folder });
  const { id, key } = await app.createKey('alice', { name: 'a', scopes: [] });
  const rotated = await app.call('rotate_api_key', { keyId: id }, await bearer(app, 'alice'));
  created = { id, fingerprints: [key, rotated.body.key].map(fingerprint) };
});

describe('a path where nothing is, or an empty file', () => {
  const verbs = [['list'], ['create', '--user', 'u', '--name', 'n'], ['block', 'u'], ['backup', 'b.db'], ['doctor']];
  test.each(verbs.map((args) => ({ args })))('$args makes no database there', async ({ args }) => {
    const path = join(temporaryFolder(), 'mistyped.db');
    const { code, stdout, stderr } = await keysCommand({ DATABASE_URL: `file:${path}` }, args);
    expect({ code, said: stdout + stderr }).toEqual({
      code: 1,
      said: expect.stringContaining('there is no database at'),
    });
    expect(existsSync(path)).toBe(false);
    writeFileSync(path, '');
    expect(await keysCommand({ DATABASE_URL: `file:${path}` }, args)).toMatchObject({ code: 1 });
    expect(statSync(path).size).toBe(0);
  });
});

const READING = [['list'], ['doctor'], ['backup', 'b.db']];
test.each(READING.map((args) => ({ args })))('$args says why it cannot look at the path', async ({ args }) => {
  const link = join(temporaryFolder(), 'loop');
  symlinkSync(link, link);
  const { code, stdout, stderr } = await keysCommand({ DATABASE_URL: `file:${link}` }, args);
  expect({ code, said: stdout + stderr }).toEqual({
    code: 1,
    said: expect.stringMatching(/DATABASE_URL: expected a file that can be written, .*ELOOP/),
  });
});

const WRONG = [
  ['list', 'alice'],
  ['doctor', 'now'],
  ['create', '--user', 'u', '--name', 'n', 'read'],
  ['create', '--name', 'n'],
  ['backup', 'a.db', 'b.db'],
  ['block', 'alice', 'bob'],
  ['events', '--limit', '0'],
  ['events', '5'],
  ['events', '--key', KEY],
  ['create', '--user', 'u', '--name', 'n', '--days', 'x'],
  ['create', '--user', 'u', '--name', 'n', '--days', ''],
  ['create', '--user', 'u', '--name', 'Z\u{fffd}rich'], // how a runtime shows bytes that are not UTF-8
  ['create', '--ask', 'http://keys.example'], // what is sent there anybody could read
  ['create', '--ask', 'https://127.0.0.1:1', '--days', '3'],
  ['create', '--ask', 'https://127.0.0.1:1', '--user', 'u'],
  ['revoke', '--user', 'alice', '--user', 'bob', '--yes'],
  ['revoke', '--scope', 'a', '--scope=b', '--yes'],
  ['revoke', '--expires-within', '14d', '--yes'],
  ['revoke', '--scope', 'read write', '--yes'], // no key has a scope with a space
  ['list', '--scope', 'read write'],
  ['create', '--ask', 'https://127.0.0.1:1', '--scope', 'read write'],
  ['header', 'https://127.0.0.1:1', '--scope', 'read write'],
  ['create', '--ask', 'https://127.0.0.1:1', '--name', 'n'.repeat(201)],
  ['header', 'https://127.0.0.1:1', '--name', ' '],
  ['block', 'o'.repeat(256)], // nobody is called so
];
test.each(WRONG.map((args) => [args.join(' ').slice(0, 60), args] as const))(
  '%p is a wrong usage, which says the right one',
  async (_, args) => {
    const { code, stdout, stderr } = await keys(...args);
    expect({ code, stdout, stderr }).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining(`usage: keys ${args[0]}`),
    });
  },
);

const README = join(import.meta.dir, '../../README.md');
const PIPE = join(temporaryFolder(), 'pipe');
Bun.spawnSync(['mkfifo', PIPE]);
const A_FOLDER = { DATABASE_URL: `file:${folder}` };
const NOT_A_FILE = `DATABASE_URL: expected a file, but this is a folder, got ${JSON.stringify(folder)}`;
test.each([
  [
    'restore of a file that is no database',
    {},
    ['restore', README],
    `expected a backup, got "${README}": it is damaged, or no database`,
  ],
  ['restore of a key', {}, ['restore', KEY], 'expected a backup that can be read, got "[redacted]" (ENOENT)'],
  [
    'restore of a file that is not there',
    {},
    ['restore', 'mistyped.db'],
    'expected a backup that can be read, got "mistyped.db" (ENOENT)',
  ],
  ['restore of a folder', {}, ['restore', folder], `expected a backup, got the folder "${folder}"`],
  ['restore of a pipe', {}, ['restore', PIPE], `expected a backup, got "${PIPE}": it is empty`],
  [
    'a backup into a folder that is not there',
    {},
    ['backup', join(folder, 'none/b.db')],
    `there is no folder "${folder}/none"`,
  ],
  ['a folder for a database', A_FOLDER, ['list'], NOT_A_FILE],
  ['a change of a key that is not there', {}, ['update', KEY_ID, '--name', 'n'], 'there is no such key'],
  ['what is shown of no key', {}, ['show', '-'], 'stdin: expected an API key'],
  ['a backup of a folder', A_FOLDER, ['backup', join(temporaryFolder(), 'b.db')], NOT_A_FILE],
])('%s is said in one sentence, and nothing is changed', async (_, more, args, said) => {
  const before = readdirSync(folder).sort();
  expect(await keysCommand({ ...env, ...more }, args)).toEqual({ code: 1, stdout: '', stderr: `keys: ${said}\n` });
  expect(readdirSync(folder).sort()).toEqual(before);
});

test.each([
  ['CREATE TABLE users (id INTEGER)', 'it belongs to another program, or was changed by hand'],
  ['', 'it is empty'],
])('restore of a database that is not ours says what it is, not what to set: %p', async (sql, said) => {
  const file = join(temporaryFolder(), 'other.db');
  writeFileSync(file, '');
  if (sql !== '') await executeAt(`file:${file}`, sql);
  const stderr = `keys: expected a backup, got "${file}": ${said}\n`;
  expect(await keys('restore', file)).toEqual({ code: 1, stdout: '', stderr });
});

test.each([
  { args: ['create', '--user', 'u', '--name', 'n', '--days', '0'] },
  { args: ['update', KEY_ID, '--days', '0'] },
])('$args: a bad value is said with the usage', async ({ args }) => {
  const { code, stdout, stderr } = await keys(...args);
  expect({ code, stdout, stderr }).toEqual({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(new RegExp(`^keys: --days: Expected a number above 0 .*\nusage: keys ${args[0]} `)),
  });
});

test('an owner who may hold no more keys is said in words, beside the code', async () => {
  const args = ['create', '--user', 'alice', '--name', 'n'];
  const { code, stdout, stderr } = await keysCommand({ ...env, OWNER_KEYS: '1' }, args);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toStartWith('keys: key_limit_reached: There are as many API keys as this user may hold');
});

test('the secret of user tokens is not needed, but doctor misses it', async () => {
  const production = { ...env, NODE_ENV: 'production' };
  expect(await keysCommand(production, ['list'])).toMatchObject({ code: 0, stderr: '' });
  const created = await keysCommand(production, ['create', '--user', 'bob', '--name', 'n']);
  expect(created.stdout).toStartWith('sk_live_');
  const { code, stdout } = await keysCommand(production, ['doctor']);
  expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(/^bad +configuration +JWT_SECRET: /) });
});

test('doctor has a line for each variable that is wrong', async () => {
  const { code, stdout } = await keysCommand({ ...env, PORT: '80a', TRUST_PROXY: 'x' }, ['doctor']);
  const said =
    'bad  configuration  PORT: expected 0-65535, got "80a"\nbad  configuration  TRUST_PROXY: expected 0-32, got "x"\n';
  expect({ code, stdout }).toEqual({ code: 1, stdout: said });
});

test('what a name has to move the cursor, or to turn the text around, is not shown', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  await app.createKey('alice');
  const path = join(app.folder, 'keys.db');
  // No tool takes the first.
  await executeAt(`file:${path}`, "UPDATE api_keys SET name = 'a' || char(27) || '[2Jb' || char(8238) || 'c'");
  const { stdout } = await keysCommand({ DATABASE_URL: `file:${path}` }, ['list']);
  expect(stdout).toContain(' a[2Jbc ');
});

test('a key is found by the fingerprint of each of its secrets', async () => {
  for (const fingerprint of created.fingerprints) {
    const { stdout } = await keys('show', fingerprint.toUpperCase(), '--json'); // some tools write capitals
    expect(JSON.parse(stdout).id).toBe(created.id);
  }
  expect((await keys('show', 'f'.repeat(12))).code).toBe(1);
});

test('block says how many keys the owner has, because 0 may be a slip; no key is repeated', async () => {
  expect((await keys('block', 'alcie')).stderr).toBe('"alcie" is blocked now, with 0 active keys\n');
  expect((await keys('unblock', 'alice')).stderr).toBe('"alice" is not blocked, with 1 active key\n');
  expect((await keys('block', KEY)).stderr).not.toContain(KEY);
});

test('create says what KEY_SCOPES and KEY_MAX_DAYS allow', async () => {
  const ceilings = { ...env, KEY_SCOPES: 'read write', KEY_MAX_DAYS: '30' };
  const args = ['create', '--user', 'u', '--name', 'n', '--scope', 'reed', '--days', '31'];
  expect(await keysCommand(ceilings, args)).toEqual({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(
      /^keys: --scope: Expected one of read, write\n--days: Expected a number above 0 and at most 30\nusage: .*\n$/,
    ),
  });
});

test('create and update give introspect and delegate whatever KEY_SCOPES says', async () => {
  const ceilings = { ...env, KEY_SCOPES: 'read' };
  const scopes = ['read', 'introspect', 'delegate'].flatMap((scope) => ['--scope', scope]);
  const made = await keysCommand(ceilings, ['create', '--user', 'service', '--name', 'n', ...scopes]);
  expect(made).toMatchObject({ code: 0 });
  const [{ id }] = jsonLines(await keys('list', '--user', 'service', '--json'));
  for (const scope of ['delegate', 'introspect']) {
    expect(await keysCommand(ceilings, ['update', id, '--scope', scope])).toMatchObject({ code: 0 });
    expect(jsonLines(await keys('show', id, '--json'))).toMatchObject([{ scopes: [scope] }]);
  }
});

test('update gives no scope beyond KEY_SCOPES, but leaves those that the key has', async () => {
  const made = await keys('create', '--user', 'holder', '--name', 'n', '--scope', 'old', '--scope', 'read');
  expect(made).toMatchObject({ code: 0 });
  const [{ id }] = jsonLines(await keys('list', '--user', 'holder', '--json'));
  const update = (...scopes: string[]) =>
    keysCommand({ ...env, KEY_SCOPES: 'read write' }, ['update', id, ...scopes.flatMap((scope) => ['--scope', scope])]);
  expect(await update('read', 'raed')).toEqual({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/^keys: --scope: Expected one of read, write\nusage: .*\n$/),
  });
  expect(jsonLines(await keys('show', id, '--json'))).toMatchObject([{ scopes: ['old', 'read'] }]);
  expect(await update('old', 'write')).toMatchObject({ code: 0 });
  expect(jsonLines(await keys('show', id, '--json'))).toMatchObject([{ scopes: ['old', 'write'] }]);
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
    (await keysProcess({ ...env, TZ }, ['list', '--user', 'dated', '--created-after', '2026-01-31', '--json'])).stdout;
  expect(await listed('UTC')).toContain('dated');
  expect(await listed('Etc/GMT+12')).toBe(''); // there the day begins at noon in UTC
  expect(await keys('list', '--created-after', '2026-01-31 noon')).toMatchObject({ code: 2 });
});

test('what is no day is refused in a file and as an option', async () => {
  const file = join(temporaryFolder(), 'keys.jsonl');
  for (const day of ['2026-02-30', '2026-02-29', '2026-04-31', '2026-00-10']) {
    const line = { userId: 'dated', name: 'n', keyHash: 'e'.repeat(64), scopes: [], expiresAt: `${day}T06:00:00Z` };
    writeFileSync(file, JSON.stringify(line));
    const stderr = expect.stringContaining('line 1: expiresAt: ');
    expect(await keys('import', file)).toMatchObject({ code: 1, stderr });
    for (const time of [day, `${day}T06:00:00Z`]) expect((await keys('list', '--created-after', time)).code).toBe(2);
  }
});

test.each(['9000000000000000', '-9000000000000000'])(
  'a time of %s ms, typed into the database, is shown',
  async (ms) => {
    const made = await keys('create', '--user', 'typed', '--name', 'n');
    expect(made.code).toBe(0);
    await executeAt(env.DATABASE_URL, `UPDATE api_keys SET expires_at_ms = ${ms} WHERE user_id = 'typed'`);
    const year = ms.startsWith('-') ? '0000-01-01T' : '9999-12-31T';
    for (const format of ['--wide', '--json']) {
      const { code, stdout } = await keys('list', '--user', 'typed', format);
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(year) });
    }
  },
);

test('list ends in silence when its reader leaves; create says that the key is lost', async () => {
  const lines = Array.from({ length: 2000 }, (_, index) =>
    JSON.stringify({ userId: `u${index}`, name: 'n', keyHash: Bun.SHA256.hash(`${index}`, 'hex'), scopes: [] }),
  );
  const file = join(temporaryFolder(), 'keys.jsonl');
  writeFileSync(file, lines.join('\n'));
  expect((await keys('import', file)).code).toBe(0);
  expect(await keysInto('head -1', env, ['list'])).toMatchObject({ code: 0, stderr: '' });
  const created = await keysIntoNothing(env, ['create', '--user', 'u', '--name', 'n']);
  expect(created).toMatchObject({ code: 1, stderr: expect.stringContaining('could not be printed') });
});

test('a command does its work though nobody can read what it says: its exit code is that of the work', async () => {
  const created = await keysTo('2>/dev/full', env, ['create', '--user', 'unheard', '--name', 'n']);
  expect(created).toMatchObject({ code: 0, stdout: expect.stringMatching(/^sk_test_/) });
  expect(await keysTo('2> >(:)', env, ['block', 'unheard'])).toMatchObject({ code: 0 });
  expect(await keysTo('2>/dev/full', env, ['unblok', 'unheard'])).toMatchObject({ code: 2 });
});

test('revoke revokes all, and fails if the ids could not be written', async () => {
  for (const name of ['a', 'b']) await keys('create', '--user', 'unsaved', '--name', name);
  const { code, stderr } = await keysTo('>/dev/full', env, ['revoke', '--user', 'unsaved', '--yes']);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^2 revoked\nkeys: stdout: ENOSPC/) });
});

test.each(['>&-', '>/dev/null'])('create makes no key that would be lost in %s', async (redirection) => {
  const { code, stderr } = await keysTo(redirection, env, ['create', '--user', 'unseen', '--name', 'n']);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('stdout is closed or /dev/null') });
  expect((await keys('list', '--user', 'unseen', '--json')).stdout).toBe('');
});

test('an import of a pipe, which can be read once, says so; a file is taken with a byte order mark', async () => {
  const file = join(temporaryFolder(), 'keys.jsonl');
  const line = JSON.stringify({ userId: 'pipes', name: 'n', keyHash: 'b'.repeat(64), scopes: [] });
  writeFileSync(file, `\ufeff${line}\r\n`);
  expect(await keysTo(`< <(cat ${file})`, env, ['import', '/dev/stdin'])).toMatchObject({
    code: 1,
    stderr: 'keys: expected a file, which is read twice: no pipe and no folder\n',
  });
  expect(await keysTo(`< ${file}`, env, ['import', '/dev/stdin'])).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('1 imported, 0 were there already'),
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

test('a backup into a file fails with a line and removes nothing', async () => {
  const target = temporaryFolder();
  writeFileSync(join(target, 'file'), '');
  const { code, stderr } = await keys('backup', join(target, 'file/b.db'));
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^keys: .*b\.db\.\S+\.part'?\n$/) });
  expect(readdirSync(target)).toEqual(['file']);
});

test('backups to one path at once write to files of their own, and remove none of another', async () => {
  const target = temporaryFolder();
  const file = join(target, 'b.db');
  const ofAnother = `${file}.part`;
  writeFileSync(ofAnother, 'unfinished');
  const done = await Promise.all([keys('backup', file), keys('backup', file)]);
  expect(done.map(({ code }) => code)).toContain(0);
  expect(readdirSync(target).sort()).toEqual(['b.db', 'b.db.part']);
  expect(readFileSync(ofAnother, 'utf8')).toBe('unfinished');
  expect((await executeAt(`file:${file}`, 'PRAGMA integrity_check'))[0]).toMatchObject({ integrity_check: 'ok' });
});

test('a backup that takes long says on a terminal how far it is, and obeys Ctrl-C', async () => {
  await using sqld = await startSqld();
  await using _ = await createTestApp({ store: { env: () => sqld.env, async [Symbol.asyncDispose]() {} } });
  await using proxy = await startProxy(sqld.url, { delayMs: 700 });
  const [target, temporary] = [temporaryFolder(), temporaryFolder()];
  let said = '';
  const terminal = {
    cols: 80,
    rows: 24,
    data(_: unknown, chunk: Uint8Array) {
      said += new TextDecoder().decode(chunk);
    },
  };
  const args = ['backup', join(target, 'b.db')];
  const command = startKeys({ ...sqld.env, DATABASE_URL: proxy.url }, args, temporary, { terminal });
  await waitFor(() => /\r[\d.]+ MB written/.test(said));
  command.kill('SIGINT');
  await command.exited;
  expect([readdirSync(target), readdirSync(temporary)]).toEqual([[], []]);
});

const DAY_MS = 86_400_000;
const tls = (days: number) => {
  const { certFile, keyFile } = makeCertificate(new Date(Date.now() + days * DAY_MS));
  return { JWT_SECRET: TEST_SECRET, TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile };
};
test.each<[string, () => Record<string, string>, number, RegExp]>([
  ['a certificate that ends in 15 days', () => tls(15), 3, /^ok +certificate +it ends at /m],
  ['one that ends in 13', () => tls(13), 3, /^note +certificate +it ends at /m],
  ['one that has ended', () => tls(-1), 1, /^bad +certificate +it ended at /m],
  [
    'a TLS file that cannot be used',
    () => ({ ...tls(15), TLS_KEY_FILE: makeCertificate().certFile }),
    1,
    /^bad +certificate +TLS_KEY_FILE: /m,
  ],
  [
    'where it has looked for a server, and what to set',
    () => ({ PORT: '1' }),
    3,
    /^note +server +not reached at http:\/\/127\.0\.0\.1:1: .*\nnote +server +not found; if it /m,
  ],
  ['what a start warns of', () => ({ MCP_AUTH: 'eager', PORT: '1' }), 3, /^note +configuration +MCP_AUTH: /m],
  [
    'that no credential is accepted',
    () => ({ NODE_ENV: 'production', JWT_SECRET: TEST_SECRET, PORT: '1' }),
    3,
    /^note +configuration +NODE_ENV: in production no credential is accepted without HTTPS; /m,
  ],
])('doctor says: %s', async (_, settings, code, said) => {
  expect(await keysCommand({ ...env, ...settings() }, ['doctor'])).toMatchObject({
    code,
    stdout: expect.stringMatching(said),
  });
});

test('a path that is missing is said from the root on: commands are run in the wrong folder', async () => {
  const { stderr } = await keysProcess({}, ['list']);
  expect(stderr).toMatch(/^keys: DATABASE_URL: there is no database at "\/.*\/data\/keys\.db"; a server makes it\n$/);
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('a %s leaves no copy of a backup behind', async (signal) => {
  const [target, temporary] = [temporaryFolder(), temporaryFolder()];
  const backup = join(target, 'b.db');
  expect((await keys('backup', backup)).code).toBe(0);
  await using sqld = await startSqld();
  sqld.freeze(); // so that it waits, with the copy made, or begun
  const left = () => readdirSync(temporary, { recursive: true }).map(String);
  for (const [args, begun] of [
    [['restore', backup, '--yes'], () => left().some((name) => name.endsWith('/backup.db'))],
    [['backup', join(target, 'second.db')], () => readdirSync(target).length > 1],
  ] as const) {
    const command = startKeys(sqld.env, args, temporary);
    await waitFor(begun);
    command.kill(signal);
    await command.exited;
    expect({ signal: command.signalCode, left: left() }).toEqual({ signal, left: [] });
  }
  expect(readdirSync(target)).toEqual(['b.db']);
});

test('doctor: a clock of the database may be 1 s off, whenever within a slow response it was read', () => {
  const [askedAtMs, respondedAtMs] = [Date.UTC(2026, 0, 2), Date.UTC(2026, 0, 2) + 4000];
  const found = (readAtMs: number, until = respondedAtMs) => clockFinding(readAtMs, askedAtMs, until)[0];
  for (const offMs of [1000, -1000]) expect(found(askedAtMs + offMs, askedAtMs)).toBe('ok');
  for (const offMs of [1001, -1001]) expect(found(askedAtMs + offMs, askedAtMs)).toBe('bad');
  for (const readAtMs of [askedAtMs, askedAtMs + 2000, respondedAtMs]) expect(found(readAtMs)).toBe('ok');
  for (const readAtMs of [respondedAtMs + 1001, askedAtMs - 1001]) expect(found(readAtMs)).toBe('bad');
});

test('doctor finds a database that takes no writes', async () => {
  await using sqld = await startSqld();
  const settings = { ...env, ...sqld.env };
  await using _ = await createTestApp({ store: storeOn(sqld.env) });
  await sqld.blockWrites(true);
  const { code, stdout } = await keysCommand(settings, ['doctor']);
  expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(/^bad +database /m) });
});

test('list fits 80 columns, whatever owners and names are; --wide has the rest', async () => {
  const owner = 'an-owner-with-a-very-long-name@department.example.com';
  const names = ['n'.repeat(200), '日本語の名前日本語の名前', '😀'.repeat(40), 'e\u0301'.repeat(50), 'short'];
  for (const name of names) expect((await keys('create', '--user', owner, '--name', name)).code).toBe(0);
  const listed = async (...more: string[]) =>
    (await keys('list', '--user', owner, ...more)).stdout.trimEnd().split('\n');
  const [lines, sorted] = [await listed(), await listed('--sort', 'uses')];
  expect([lines.length, sorted.length]).toEqual([1 + names.length, 1 + names.length]);
  for (const line of [...lines, ...sorted]) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(80);
  expect(sorted[0]).toMatch(/^ID +OWNER +NAME +STATE +USES$/);
  expect(lines[0]).toMatch(/^ID +OWNER +NAME +STATE +LAST USED$/);
  expect(lines[1]).toMatch(/^[0-9a-f]{32} {2}an-owner-wi… {2}short +active +-$/);
  const wide = (await keys('list', '--user', owner, '--wide')).stdout;
  expect(wide).toContain(owner);
  expect(wide).toMatch(/SCOPES .*EXPIRES .*FINGERPRINT/);
}, 180_000);

test.each([
  [['lst'], 'keys: there is no verb lst; did you mean list?\n'],
  [['rotate-all'], expect.stringMatching(/^keys: there is no verb rotate-all; there are list, .*\n$/)],
  [
    ['list', '--usr', 'x'],
    expect.stringMatching(/^keys: there is no option --usr; did you mean --user\?\nusage: keys list /),
  ],
  [['list', '--zzz'], expect.stringMatching(/^keys: there is no option --zzz\nusage: keys list /)],
  [
    ['owner'],
    expect.stringMatching(/^keys: expected an owner of 1 to 255 characters without controls\nusage: keys owner /),
  ],
  [['list', '--user'], expect.stringMatching(/^keys: --user: expected a value\nusage: keys list /)],
  [['list', '--json=yes'], expect.stringMatching(/^keys: --json takes no value\nusage: keys list /)],
] as [string[], string][])('%j is answered in a few words', async (args, stderr) => {
  expect(await keys(...args)).toEqual({ code: 2, stdout: '', stderr });
});

describe('what a terminal would obey, in a text that a stranger chose', () => {
  const OWNER = 'al\u202eice \u2028z';
  const obeyed = /[\0-\t\v-\x1f\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/u;
  const place = { DATABASE_URL: `file:${join(temporaryFolder(), 'keys.db')}` };
  beforeAll(async () => {
    await using app = await createTestApp({ store: storeOn(place) });
    await app.createKey(OWNER, { name: `a\u{e0041}\u202eb`, scopes: ['read'] });
  });

  test.each([
    ['owner OWNER --meta DATA', 0],
    ['list', 0],
    ['list --wide', 0],
    ['list --json', 0],
    ['owners', 0],
    ['owners --json', 0],
    ['events', 0],
    ['events --json', 0],
    ['owner OWNER --json', 0],
    ['revoke --user OWNER', 2],
    ['owner OWNER --delete', 2],
    ['block OWNER', 0],
    ['unblock OWNER', 0],
    ['DATA', 2],
  ] as const)('%s prints none of it', async (words, code) => {
    const said: Readonly<Record<string, string>> = { OWNER, DATA: 'plan=a\u009b31m' };
    const args = words.split(' ').map((word) => said[word] ?? word);
    const ended = await keysCommand(place, args);
    expect(ended.code).toBe(code);
    expect(ended.stdout + ended.stderr).not.toMatch(obeyed);
    if (words.includes('--json')) expect(JSON.parse(ended.stdout.split('\n')[0] ?? '').owner).toBe(OWNER);
  });

  test('a question shows an owner as another than the one he looks like', async () => {
    const { stderr } = await keysCommand(place, ['owner', OWNER, '--delete']);
    expect(stderr).toContain('Delete "al\\u202eice \\u2028z" with');
  });

  test('another server’s words are shown so, too', async () => {
    using server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () =>
        Response.json({
          device_code: 'code',
          user_code: 'AB\u202eCD',
          verification_uri_complete: 'https://keys.example/\u202e#x',
          expires_in: 1,
        }),
    });
    const { stderr } = await keysCommand({ XDG_CONFIG_HOME: temporaryFolder() } as object, [
      'header',
      server.url.origin,
    ]);
    expect(stderr).toContain('Open https://keys.example/\\u202e#x\n');
    expect(stderr).toContain('asks for AB\\u202eCD\n');
  });
});

test('doctor reads a part of what another program sends from the server’s address', async () => {
  const chunk = new Uint8Array(1e6);
  let sent = 0;
  const pull = (to: ReadableStreamDefaultController) => (sent++ < 64 ? to.enqueue(chunk) : to.close());
  using other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response(new ReadableStream({ pull })) });
  const { stdout } = await keysCommand({ ...env, JWT_SECRET: TEST_SECRET, PORT: `${other.port}` }, ['doctor']);
  expect(stdout).toContain('is not this server');
  expect(sent).toBeLessThan(32);
});

test('a folder that can’t be used is a sentence, whatever a command wanted there', async () => {
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  const refused = (doing: string) => ({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(new RegExp(`^keys: ENOTDIR: not a directory, ${doing} '${file}[^\\n]*\\n$`)),
  });
  const header = await keysCommand({ XDG_CONFIG_HOME: file } as object, ['header', 'http://127.0.0.1:9']);
  expect(header).toEqual(refused('mkdir'));
  const backup = join(temporaryFolder(), 'backup.db');
  expect((await keys('backup', backup)).code).toBe(0);
  expect(await keysProcess({ ...env, TMPDIR: file }, ['restore', backup, '--yes'])).toEqual(refused('scandir'));
});

/** Runs a command as a user of whom the system knows only the number, as containers do. */
const AS_NUMBER = ['unshare', '--map-user=54321', '--map-group=54321'];
const cannotMap = Bun.spawnSync([...AS_NUMBER, 'true']).exitCode !== 0;

describe.skipIf(cannotMap)('a user without a name', () => {
  test.each(rows(['bun', 'deno'] as const, 1))(
    'is a number in the trail, and needs HOME to keep a key, on %s',
    async (on) => {
      const command = [...AS_NUMBER, ...runnerOf(on), join(import.meta.dir, '../../src/commands/keys.ts')];
      const runAs = (args: readonly string[], more = {}) =>
        run([...command, ...args], { cwd: temporaryFolder(), env: { ...env, ...more } });
      expect(await runAs(['block', `of ${on}`])).toMatchObject({ code: 0 });
      const events = jsonLines(await keys('events', '--user', `of ${on}`, '--json'));
      expect(events).toMatchObject([{ kind: 'blocked', actor: 'uid 54321' }]);
      expect(await runAs(['header', 'http://127.0.0.1:9'], { HOME: '', DENO_DIR: temporaryFolder() })).toEqual({
        code: 1,
        stdout: '',
        stderr: 'keys: HOME: expected the folder of the user, in which the key is kept, but it is not set\n',
      });
    },
  );
});
