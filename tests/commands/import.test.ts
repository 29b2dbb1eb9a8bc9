// `keys import`: the hash forms that other systems keep, what a line may say of a key, and what is said of those left out.
// `keys export`, whose lines it takes.

import { expect, test } from 'bun:test';
import { hash } from 'node:crypto';
import { readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../support/command.ts';
import { databaseOf } from '../support/database-client.ts';
import { readDocument } from '../support/documents.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { jsonLines, keysCommand, keysProgram } from '../support/keys-command.ts';
import { labelled } from '../support/labels.ts';
import { STORE_MODES, startStore } from '../support/store-mode.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';

const KEY = `sk_live_${'c'.repeat(64)}`;
const HEX = hash('sha256', KEY, 'hex');
const BASE64 = hash('sha256', KEY, 'base64');
const BASE64URL = hash('sha256', KEY, 'base64url');

const FORMS = {
  hex: HEX,
  'hex in capitals': HEX.toUpperCase(),
  base64: BASE64,
  'base64 without padding': BASE64.replace('=', ''),
  base64url: BASE64URL,
  'base64url with padding': `${BASE64URL}=`,
};

function fileOf(...lines: readonly object[]): string {
  const file = join(temporaryFolder(), 'keys.jsonl');
  writeFileSync(file, lines.map((line) => JSON.stringify(line)).join('\n'));
  return file;
}

const lineOf = (more: object) => ({ userId: 'alice', name: 'n', scopes: ['read'], ...more });

const importing = (app: TestApp, ...lines: readonly object[]) => app.keys('import', fileOf(...lines));

test.each(Object.entries(FORMS))('a hash as %s', async (_, keyHash) => {
  await using app = await createTestApp();
  await importing(app, lineOf({ keyHash }));
  expect((await app.useKey(KEY)).status).toBe(200);
});

test('one key in all its forms is one key, in one import and in the next, and counted so', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const lines = Object.values(FORMS).map((keyHash) => lineOf({ keyHash }));
  const importAll = () => keysCommand({ DATABASE_URL: databaseOf(app) }, ['import', fileOf(...lines)]);
  expect((await importAll()).stderr).toContain(`1 imported, ${lines.length - 1} were there already`);
  expect((await importAll()).stderr).toContain(`0 imported, ${lines.length} were there already`);
  const listed = (await app.keys('list', '--json')).trim().split('\n');
  expect(listed).toHaveLength(1);
});

test('one key in two lines, one of which says that it is of another form, is counted as such', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const lines = [lineOf({ keyHash: HEX }), lineOf({ keyHash: BASE64, foreign: true })];
  const imported = await keysCommand({ DATABASE_URL: databaseOf(app) }, ['import', fileOf(...lines)]);
  expect(imported.stderr).toBe(
    '1 imported, 1 were there already\nservers take keys of another form within the revocation bound\n',
  );
});

test('a line may have a limit, a quota and metadata', async () => {
  await using app = await createTestApp();
  const given = {
    rateLimit: { requests: 7, window: '1h' },
    quota: { requests: 9, period: 'day' },
    metadata: { plan: 'pro' },
  };
  await importing(app, lineOf({ keyHash: BASE64URL, ...given }));
  expect(JSON.parse(await app.keys('list', '--json'))).toMatchObject(given);
  const { body } = await app.call('whoami', {}, { 'x-api-key': KEY });
  expect(body).toMatchObject({ rateLimit: { remaining: 6 }, quota: { remaining: 8 }, metadata: { plan: 'pro' } });
});

test.each(
  labelled([
    { keyHash: HEX.slice(1) },
    { keyHash: `${HEX}0` },
    { keyHash: BASE64.slice(2) },
    { keyHash: `${BASE64}=` },
    { keyHash: hash('sha512', KEY, 'base64') },
    { metadata: { Plan: 'x' }, keyHash: HEX },
    { rateLimit: { requests: 0, window: '1h' }, keyHash: HEX },
    { quota: { requests: 1, period: 'year' }, keyHash: HEX },
    { foreign: 'yes', keyHash: HEX },
    { refill: 1, keyHash: HEX },
    { resource: 'a name', keyHash: HEX },
    { resource: 'https://API.example/', keyHash: HEX },
  ]),
)('%s is a bad line, and nothing is imported', async (_label, more) => {
  await using app = await createTestApp();
  await expect(importing(app, lineOf({ keyHash: 'a'.repeat(64) }), lineOf(more))).rejects.toThrow('line 2: ');
  expect(await app.keys('list', '--json')).toBe('');
});

test.each(['[{"userId": "alice"}]', 'null', '"alice"'])('%s is no line of an import', async (line) => {
  await using app = await createTestApp();
  const file = join(temporaryFolder(), 'lines');
  writeFileSync(file, line);
  await expect(app.keys('import', file)).rejects.toThrow('line 1: expected one JSON object');
});

test('a line without end is refused before it is in memory', async () => {
  await using app = await createTestApp();
  const file = join(temporaryFolder(), 'endless');
  writeFileSync(file, `${JSON.stringify(lineOf({ keyHash: HEX }))}\r\n`);
  truncateSync(file, 2 ** 40); // zeros that no disk keeps
  await expect(app.keys('import', file)).rejects.toThrow('line 2: expected one JSON object');
  expect(await app.keys('list', '--json')).toBe('');
});

test('a file may be longer than what is read at once, and have characters on both sides of that', async () => {
  await using app = await createTestApp();
  const name = '\u{1f511}'.repeat(200);
  const long = { name, scopes: Array.from({ length: 20 }, (_, at) => `${at}`.padStart(100, 'x')) };
  const hashes = Array.from({ length: 60 }, (_, at) => `${at}`.padStart(64, '0'));
  await importing(app, ...hashes.map((keyHash) => lineOf({ ...long, keyHash })));
  const listed = (await app.keys('list', '--json')).trim().split('\n');
  expect(listed.map((line) => JSON.parse(line).name)).toEqual(hashes.map(() => name));
});

const FOREIGN = 'unkey_3ZHfVMUHmQ8kq7xn2B';
/** After this long every process knows of an import. */
const LATER_MS = 1001;

test.each(rows(STORE_MODES, 1))(
  'an import that took keys for this server’s own is mended by a second one (%s)',
  async (mode) => {
    await using store = await startStore(mode);
    await using app = await createTestApp({ store });
    const line = lineOf({ keyHash: hash('sha256', FOREIGN, 'base64') });
    const importing = async (...lines: readonly object[]) =>
      (await keysCommand(store.env(), ['import', fileOf(...lines)])).stderr;
    expect(
      await importing(line, lineOf({ keyHash: HEX }), lineOf({ keyHash: 'e'.repeat(64), foreign: true })),
    ).toContain("3 imported, 0 were there already\n2 of the new keys are accepted only in this server's form");
    app.clock.advance(LATER_MS);
    expect((await app.useKey(FOREIGN)).status).toBe(401);
    expect(await importing({ ...line, foreign: true }, lineOf({ keyHash: HEX }))).toBe(
      '0 imported, 2 were there already\n1 that were there are accepted in another form, too\nservers take keys of another form within the revocation bound\n',
    );
    app.clock.advance(LATER_MS);
    expect([(await app.useKey(FOREIGN)).status, (await app.useKey(KEY)).status]).toEqual([200, 200]);
    expect(await importing({ ...line, foreign: true })).toBe('0 imported, 1 were there already\n');
  },
);

test('one key in two lines for two owners is an error that names both, and nothing is imported', async () => {
  await using app = await createTestApp();
  const lines = [
    { keyHash: 'a'.repeat(64) },
    { keyHash: HEX },
    { keyHash: HEX },
    { keyHash: BASE64, userId: 'bob' },
  ].map(lineOf);
  await expect(importing(app, ...lines)).rejects.toThrow('line 4: the key of line 2, for another owner');
  expect(await app.keys('list', '--json')).toBe('');
});

test('lines that find no place are named, with the reason; the others are imported', async () => {
  await using app = await createTestApp({ env: { OWNER_KEYS: '2' } });
  const { id } = await app.createKey('alice');
  const lines = Array.from({ length: 4 }, (_, at) => lineOf({ keyHash: `${at}`.padStart(64, '0') }));
  const taken = lineOf({ userId: 'bob', keyHash: HEX, id });
  const failed = importing(app, ...lines, taken, lineOf({ userId: 'bob', keyHash: 'b'.repeat(64) }));
  await expect(failed).rejects.toThrow(
    "not imported: lines 2, 3, 4, because the owner has as many keys as he may; line 5, because the id is another key's",
  );
  expect(
    jsonLines({ stdout: await app.keys('list', '--json') })
      .map(({ owner }) => owner)
      .sort(),
  ).toEqual(['alice', 'alice', 'bob']);
});

test('what is exported is imported as it was: all that a line says, but no revoked key', async () => {
  await using app = await createTestApp({ env: { OAUTH_RESOURCES: 'https://other.example' } });
  const rich = {
    keyHash: HEX,
    createdAt: '2025-02-03T04:05:06.789Z',
    expiresAt: '2030-01-01T00:00:00.000Z',
    rateLimit: { requests: 7, window: '1h' },
    quota: { requests: 9, period: 'month' },
    metadata: { plan: 'pro' },
  };
  await importing(app, lineOf(rich), lineOf({ userId: 'bob', keyHash: hash('sha256', FOREIGN, 'hex'), foreign: true }));
  const bound = await app.createKey('carol', { resource: 'https://other.example' });
  const { id } = await app.createKey('dave');
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'dave'));
  const exported = await app.keys('export');
  expect(jsonLines({ stdout: exported }).map(({ id, ...line }) => line)).toEqual([
    {
      ...lineOf({}),
      userId: 'carol',
      name: expect.any(String),
      keyHash: hash('sha256', bound.key, 'hex'),
      createdAt: expect.any(String),
      resource: 'https://other.example',
    },
    {
      ...lineOf({}),
      userId: 'bob',
      keyHash: hash('sha256', FOREIGN, 'hex'),
      createdAt: expect.any(String),
      foreign: true,
    },
    lineOf(rich),
  ]);
  await using other = await createTestApp({ store: 'embedded' });
  const env = { DATABASE_URL: databaseOf(other) };
  expect((await keysCommand(env, ['import', '-'], exported)).stderr).toContain('3 imported');
  expect(await other.keys('export')).toContain(jsonLines({ stdout: exported })[0].id);
  expect(jsonLines({ stdout: await other.keys('export') })).toEqual(jsonLines({ stdout: exported }).reverse());
  other.clock.advance(LATER_MS);
  expect([(await other.useKey(FOREIGN)).status, (await other.useKey(bound.key)).status]).toEqual([200, 401]);
});

test('the document: one owner’s keys out of a backup, though they were deleted just now', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const [kept, others] = [await app.createKey('carol'), await app.createKey('dave')];
  const backup = join(app.folder, 'backup.db');
  await app.keys('backup', backup);
  await app.keys('owner', 'carol', '--delete', '--yes');
  app.clock.advance(LATER_MS);
  expect((await app.useKey(kept.key)).status).toBe(401);
  const [typed = ''] = readDocument('src/commands/README.md').codeBlocks('The way back', 'sh');
  const script = typed.replaceAll('bun run keys', keysProgram());
  const env = { DATABASE_URL: databaseOf(app), TMPDIR: temporaryFolder() };
  expect(await run(['bash', '-o', 'pipefail', '-c', script], { cwd: app.folder, env })).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('1 imported, 0 were there already'),
  });
  app.clock.advance(LATER_MS);
  expect([(await app.useKey(kept.key)).status, (await app.useKey(others.key)).status]).toEqual([200, 200]);
  expect(readdirSync(env.TMPDIR)).toEqual([]);
});
