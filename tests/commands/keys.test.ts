// `keys <verb>` beside a running server, on each kind of store: what it does, and that the server learns of it in time.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { execFileSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeCertificate } from '../support/certificate.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { jsonLines, keysCommand, keysProcess } from '../support/keys-command.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { STORE_MODES, startStore, type TestStore } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { refusedWithin } from '../support/wait-for.ts';

/** Long enough for a busy machine to ask the database in time, and to be told. */
const BOUND_MS = 2000;

describe.each(rows(STORE_MODES, 1))('on a database that is %s', (mode) => {
  let store: TestStore;
  let server: ServerProcess;
  let env: Record<string, string>;
  beforeAll(async () => {
    store = await startStore(mode);
    env = {
      JWT_SECRET: TEST_SECRET,
      RATE_LIMIT_REQUESTS: '0',
      REVOCATION_LAG_MAX_MS: String(BOUND_MS),
      ...store.env(),
    };
    server = await startServer({ env });
  });
  afterAll(async () => {
    await server.kill();
    await store[Symbol.asyncDispose]();
  });

  const keys = (...args: string[]) => keysCommand(env, args);
  const use = async (key: string) => (await callOver(server.url, 'get_data', {}, { 'x-api-key': key })).status;
  const create = async (owner: string, scopes: readonly string[] = ['read']) =>
    (await callOver(server.url, 'create_api_key', { name: 'of the tool', scopes }, await userHeaders(owner))).body;

  /** Runs a command and asks until each use has the status that is wanted; the one before must end within the bound. */
  async function untilStatus(wanted: readonly (readonly [number, () => Promise<number>])[], ...args: string[]) {
    const done = await keys(...args);
    expect(done).toMatchObject({ code: 0 });
    const sinceMs = performance.now();
    for (const [status, ask] of wanted) await refusedWithin(BOUND_MS, ask, { status, sinceMs });
  }

  test('create prints the key alone, and the server accepts it', async () => {
    const typed = 'create --user carol --name CI --scope read --days 30';
    const { code, stdout, stderr } = await keys(...typed.split(' '));
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^sk_test_\S+\n$/) });
    expect(stderr).not.toContain(stdout.trim());
    expect(await use(stdout.trim())).toBe(200);
    const bad = await keys('create', '--user', 'carol', '--name', 'CI', '--scope', 'no scope');
    expect(bad).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('--scope: ') });
  });

  test('list and show find it; show takes the key on stdin only', async () => {
    const { id, key } = await create('dave', ['read', 'write']);
    await create('dave', []);
    const listed = jsonLines(await keys('list', '--user', 'dave', '--scope', 'write', '--json'));
    const createdAt = expect.stringMatching(/Z$/);
    const shown = { id, owner: 'dave', scopes: ['read', 'write'], active: true, expiresAt: null, createdAt };
    expect(listed).toMatchObject([shown]);
    const [head, ...rows] = (await keys('list', '--user', 'dave')).stdout.trim().split('\n');
    expect(head).toMatch(/^ID +OWNER +NAME/);
    expect(rows).toHaveLength(2);
    for (const [args, stdin] of [[[id]], [[listed[0].fingerprint]], [['-'], key]] as const) {
      expect(jsonLines(await keysCommand(env, ['show', ...args, '--json'], stdin))).toMatchObject([{ id }]);
    }
    const pasted = await keys('show', key);
    expect(pasted).toMatchObject({ code: 2, stdout: '' });
    expect(pasted.stderr).not.toContain(key);
  });

  test('revoke says how many, does nothing unless told, and the server refuses them within the bound', async () => {
    const { key } = await create('erin');
    await create('erin');
    expect(await use(key)).toBe(200);
    const asked = await keys('revoke', '--user', 'erin');
    expect(asked).toMatchObject({ code: 2, stderr: expect.stringContaining('Revoke 2 active keys of "erin"?') });
    expect(await use(key)).toBe(200);
    await untilStatus([[401, () => use(key)]], 'revoke', '--user', 'erin', '--yes');
    expect((await keys('revoke', '--user', 'erin', '--yes')).stderr).toContain('no such active keys');
    expect(await keys('revoke')).toMatchObject({ code: 2 });
  });

  test('block refuses keys and tokens of an owner within the bound, and unblock gives both back', async () => {
    const { key } = await create('frank');
    expect(await use(key)).toBe(200);
    const headers = await userHeaders('frank');
    const tokenUse = async () => (await callOver(server.url, 'list_api_keys', {}, headers)).body;
    const both = (ofKey: number, ofToken: number) =>
      [
        [ofKey, () => use(key)],
        [ofToken, async () => (await tokenUse()).status ?? 200],
      ] as const;
    await untilStatus(both(401, 403), 'block', 'frank');
    expect(await tokenUse()).toMatchObject({ status: 403, code: 'user_blocked' });
    expect(JSON.parse((await keys('block', '--json')).stdout)).toMatchObject({ owner: 'frank' });
    expect(JSON.parse((await keys('list', '--user', 'frank', '--json')).stdout)).toMatchObject({
      active: true,
      blocked: true,
    });
    expect((await keys('list', '--user', 'frank')).stdout).toMatch(/ frank .* blocked /);
    await untilStatus(both(200, 200), 'unblock', 'frank');
    expect(await tokenUse()).toMatchObject({ keys: [{ active: true }] });
    expect((await keys('unblock', 'frank')).stderr).toContain('is not blocked,');
  });

  test('events tells who did what, and follows', async () => {
    const { id } = await create('heidi');
    await keys('revoke', id, '--yes');
    await keysProcess({ ...env, USER: 'somebody else' }, ['block', 'heidi']);
    const lines = async (...args: string[]) => jsonLines(await keys('events', '--user', 'heidi', '--json', ...args));
    const [created, ...others] = await lines();
    expect(created).toMatchObject({ kind: 'created', how: 'tool', actor: 'heidi', keyId: id, address: '127.0.0.1' });
    const actor = execFileSync('id', ['-un'], { encoding: 'utf8' }).trim();
    expect(others).toMatchObject([
      { kind: 'revoked', how: 'command', actor, keyId: id },
      { kind: 'blocked', how: 'command', actor, keyId: null, at: expect.stringMatching(/Z$/) },
    ]);
    expect(await lines('--after', String(created.seq), '--limit', '1')).toMatchObject([{ kind: 'revoked' }]);
    expect((await keys('events', '--key', id)).stdout).toMatch(/^SEQ .*\n\d+ .* created .*\n\d+ .* revoked /);
    expect(await keys('events', '--limit', 'x')).toMatchObject({ code: 2 });
    await keysCommand({ ...env, KEYS_ACTOR: 'nightly job' }, ['unblock', 'heidi']);
    expect((await lines()).at(-1)).toMatchObject({ kind: 'unblocked', actor: 'nightly job' });
  });

  test('events of a time: from --since on, before --until, of one owner or all', async () => {
    const { id } = await create('ivan');
    await keys('revoke', id, '--yes');
    const [created, revoked] = jsonLines(await keys('events', '--user', 'ivan', '--json'));
    const [first, second] = [created.at, revoked.at];
    const kinds = async (...args: string[]) =>
      jsonLines(await keys('events', '--key', id, '--json', ...args)).map(({ kind }) => kind);
    expect(await kinds('--since', first)).toEqual(['created', 'revoked']);
    expect(await kinds('--since', second)).toEqual(['revoked']);
    expect(await kinds('--until', second)).toEqual(['created']);
    expect(await kinds('--since', first, '--until', first)).toEqual([]);
    const later = new Date(Date.parse(second) + 1).toISOString();
    for (const whose of [[], ['--user', 'ivan']])
      expect(
        jsonLines(await keys('events', ...whose, '--json', '--since', second, '--until', later)).map(({ seq }) => seq),
      ).toContain(revoked.seq);
    expect(await kinds('--after', String(created.seq), '--until', later)).toEqual(['revoked']);
    expect(await keys('events', '--since', 'yesterday')).toMatchObject({ code: 2 });
    expect(await keys('events', '--follow', '--until', later)).toMatchObject({ code: 2 });
  });

  test('backup writes a new file that its owner alone can read', async () => {
    const file = join(temporaryFolder(), 'backup.db');
    expect(await keys('backup', file)).toMatchObject({ code: 0 });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await keys('backup', file)).toMatchObject({ code: 1 });
  });

  test('import checks every line first, skips what is there, and can be run again', async () => {
    const file = join(temporaryFolder(), 'keys.jsonl');
    const imported = Array.from({ length: 450 }, (_, index) => `sk_live_${index.toString(16).padStart(64, '0')}`);
    const lines = imported.map((key, index) =>
      JSON.stringify({
        userId: `owner ${index % 7}`,
        name: `key ${index}`,
        keyHash: Bun.SHA256.hash(key, 'hex'),
        scopes: ['read'],
      }),
    );
    writeFileSync(file, [...lines, '{"userId": "x"}'].join('\n'));
    expect(await keys('import', file)).toMatchObject({ code: 1, stderr: expect.stringContaining('line 451: ') });
    writeFileSync(file, `${lines[0]}\n${lines[1]?.replace('key 1', 'Z\xfcrich')}`, 'latin1');
    expect(await keys('import', file)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('line 2: expected UTF-8'),
    });
    expect(await use(imported[0] ?? '')).toBe(401);
    writeFileSync(file, lines.slice(0, 250).join('\n'));
    expect((await keys('import', file)).stderr).toContain('250 imported, 0 were there already');
    writeFileSync(file, lines.join('\n'));
    const again = await keys('import', file);
    expect(again.stderr).toContain('200 imported, 250 were there already');
    expect(again.code).toBe(0);
    expect([await use(imported[1] ?? ''), await use(imported[449] ?? '')]).toEqual([200, 200]);
  });

  test('doctor finds nothing wrong, and the server', async () => {
    const { code, stdout } = await keysCommand({ ...env, PUBLIC_URL: server.url }, ['doctor']);
    const states = stdout
      .trim()
      .split('\n')
      .map((line) => line.split(/\s+/, 1)[0]);
    expect({ code, states }).toEqual({ code: 0, states: Array(6).fill('ok') });
  });

  test('doctor asks at HOST and PORT if PUBLIC_URL is out of reach, and says where it asked', async () => {
    const away = 'http://127.0.0.1:1';
    const { code, stdout } = await keysCommand({ ...env, PORT: new URL(server.url).port, PUBLIC_URL: away }, [
      'doctor',
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      new RegExp(`^note  server +not reached at ${away}: .*\nok +server +ok at ${server.url},`, 'm'),
    );
  });
});

test('doctor finds a server whose certificate nobody trusts at its own address', async () => {
  const { certFile, keyFile } = makeCertificate();
  const env = { JWT_SECRET: TEST_SECRET, TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile };
  await using server = await startServer({ env });
  const database = `file:${join(server.folder, 'data/keys.db')}`;
  const { stdout } = await keysCommand({ ...env, DATABASE_URL: database, PORT: new URL(server.url).port }, ['doctor']);
  expect(stdout).toMatch(new RegExp(`^ok +server +ok at ${server.url},`, 'm'));
});

test('doctor tells a server that keeps its keys in a file from one whose keys are remote', async () => {
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET } });
  const remote = { JWT_SECRET: TEST_SECRET, DATABASE_URL: 'http://127.0.0.1:1', PUBLIC_URL: server.url };
  const { code, stdout } = await keysCommand(remote, ['doctor']);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^bad +server +its database is another: set DATABASE_URL here as it is there$/m);
});

test('a database that is away, a bad configuration: a line, and an exit code', async () => {
  const away = await keysCommand({ JWT_SECRET: TEST_SECRET, DATABASE_URL: 'http://127.0.0.1:1' }, ['list']);
  expect(away).toMatchObject({ code: 1, stdout: '' });
  const wrong = await keysCommand({ PORT: 'x' }, ['list']);
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('PORT: expected') });
});
