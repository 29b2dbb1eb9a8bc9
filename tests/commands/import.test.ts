// `keys import`: the hash forms that other systems keep, and what a line may say of a key.

import { expect, test } from 'bun:test';
import { hash } from 'node:crypto';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/folder.ts';
import { keysCommand } from '../support/keys-command.ts';
import { labelled } from '../support/labels.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';

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
  const importAll = () => keysCommand({ DATABASE_URL: `file:${app.folder}/keys.db` }, ['import', fileOf(...lines)]);
  expect((await importAll()).stderr).toContain(`1 imported, ${lines.length - 1} were there already`);
  expect((await importAll()).stderr).toContain(`0 imported, ${lines.length} were there already`);
  const listed = (await app.keys('list', '--json')).trim().split('\n');
  expect(listed).toHaveLength(1);
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
  ]),
)('%s is a bad line, and nothing is imported', async (_label, more) => {
  await using app = await createTestApp();
  await expect(importing(app, lineOf({ keyHash: 'a'.repeat(64) }), lineOf(more))).rejects.toThrow('line 2: ');
  expect(await app.keys('list', '--json')).toBe('');
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
