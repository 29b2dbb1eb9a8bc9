// What "Running the server" tells an operator to type: who called what, from a real log; the units that keep backups.

import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { callOver, userHeaders, userOn } from '../support/client.ts';
import { noting, run } from '../support/command.ts';
import { ROOT, readDocument } from '../support/documents.ts';
import { folderWith, temporaryFolder } from '../support/folder.ts';
import { keysCommand } from '../support/keys-command.ts';
import { startServer } from '../support/server-process.ts';
import { newDatabaseAt } from '../support/template.ts';
import { createTestApp, TEST_SECRET } from '../support/test-app.ts';

const DOCUMENT = readDocument('src/start/README.md');
const ENV = { JWT_SECRET: TEST_SECRET };
const PATH = process.env.PATH ?? '';

test.skipIf(Bun.which('jq') === null)(
  'who called what yesterday: by owner, key, tool or path, and status',
  async () => {
    await using server = await startServer({ env: { ...ENV, ACCESS_LOG: '1', TRUST_PROXY: '1' } });
    const created = await (await userOn(server)).create({ name: 'CI', scopes: ['write'] });
    const key = { 'x-api-key': created.body.key };
    for (let calls = 0; calls < 3; calls += 1) await callOver(server.url, 'whoami', {}, key);
    await callOver(server.url, 'get_data', {}, key);
    for (const uri of ['/orders?page=1', '/orders?page=2'])
      await fetch(`${server.url}/verify`, { headers: { ...key, 'x-forwarded-uri': uri } });
    await server.stop();
    const folder = folderWith({ 'keys.log': `mcp-key-server is ready\n${server.stdout()}` }); // stderr too
    const today = new Date().toISOString().slice(0, 10);
    const recipe = DOCUMENT.codeBlock('Who called what', 'sh').replace('2026-01-31', today);
    const { code, stdout } = await run(['bash', '-c', recipe], { cwd: folder, env: { PATH } });
    expect({
      code,
      lines: stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.trim()),
    }).toEqual({
      code: 0,
      lines: ['3 alice\tCI\twhoami\t200', '2 alice\tCI\t/orders\t200', '1 alice\tCI\tget_data\t403'],
    });
  },
);

test.skipIf(Bun.which('jq') === null)('why calls were refused in a minute: each row has its reason', async () => {
  await using server = await startServer({ env: { ...ENV, ACCESS_LOG: '1' } });
  const alice = await userHeaders('alice');
  await callOver(server.url, 'create_api_key', { name: '', scopes: [] }, alice); // 400
  const made = await callOver(server.url, 'create_api_key', { name: 'CI', scopes: ['write'] }, alice);
  const key = { 'x-api-key': made.body.key };
  await callOver(server.url, 'get_data', {}, key);
  await callOver(server.url, 'whoami', {}, key);
  await callOver(server.url, 'revoke_api_key', { keyId: made.body.id }, alice);
  await callOver(server.url, 'rotate_api_key', { keyId: made.body.id }, alice); // 409
  await callOver(server.url, 'whoami', {}, key);
  await server.stop();
  const log = server.stdout().replaceAll(/"time":"[^"]*"/g, '"time":"2026-01-31T12:03:07.000Z"');
  const folder = folderWith({ 'keys.log': log });
  const [, recipe = ''] = DOCUMENT.codeBlocks('Who called what', 'sh');
  const { stdout } = await run(['bash', '-c', recipe], { cwd: folder, env: { PATH } });
  const rows = stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'));
  expect(rows.map(([, , event, status, reason, owner, named]) => [event, status, reason, owner, named])).toEqual([
    ['request', '400', 'invalid_input', 'alice', ''],
    ['Insufficient scopes', '', 'read', 'alice', made.body.id],
    ['request', '403', 'insufficient_scope', 'alice', 'CI'],
    ['request', '409', 'key_not_active', 'alice', ''],
    ['Invalid or expired API key', '', 'revoked', 'alice', made.body.id],
    ['request', '401', 'invalid_api_key', 'alice', 'CI'],
  ]);
});

test('backup and restore, as they are typed', async () => {
  await using server = await startServer({ env: ENV });
  const env = { ...ENV, DATABASE_URL: `file:${join(server.folder, 'data/keys.db')}` };
  const { body } = await (await userOn(server)).create({ scopes: [] });
  const target = join(temporaryFolder(), 'keys-backup.db');
  for (const command of DOCUMENT.codeBlocks('Backups', 'sh')) {
    const [, ...words] = command.trim().split(/ (?:run )?/);
    expect(words.shift()).toBe('keys');
    const args = words.map((word) => word.replace('keys-backup.db', target));
    if (args[0] === 'restore') await server.stop();
    expect((await keysCommand(env, [...args, ...(args[0] === 'restore' ? ['--yes'] : [])])).code).toBe(0);
  }
  expect((await keysCommand(env, ['show', body.id])).code).toBe(0);
});

test('the operator’s command, as it is typed beside the unit, has the settings of the unit’s file', async () => {
  const state = folderWith({ env: `JWT_SECRET=${TEST_SECRET}\nKEY_PREFIX=acme\n` });
  await newDatabaseAt(join(state, 'keys.db'));
  const typed = /^NODE_ENV=production .* keys list$/m.exec(readDocument('src/commands/README.md').text)?.[0] ?? '';
  const command = typed
    .replace('/etc/mcp-key-server.env', join(state, 'env'))
    .replace('/var/lib/mcp-key-server', state)
    .replace(/ list$/, ' create --user alice --name CI');
  const env = { PATH: `${dirname(process.execPath)}:${PATH}` };
  const { code, stdout } = await run(['bash', '-c', command], { cwd: ROOT, env });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^acme_live_[0-9a-f]{64}\n$/) });
});

describe('the backup every hour', () => {
  const read = (name: string) => readFileSync(join(import.meta.dir, name), 'utf8');
  const unit = read('mcp-key-server-backup.service');
  const commands = [...unit.matchAll(/^ExecStart=(.*)$/gm)].map(([, command = '']) => command.replaceAll('%%', '%'));

  test('its commands make a copy beside a running server, and remove those older than two weeks', async () => {
    await using server = await startServer({ env: ENV });
    await (await userOn(server)).create();
    const backups = folderWith({ 'keys-old.db': '' });
    const old = join(backups, 'keys-old.db');
    const fifteenDaysAgo = Date.now() / 1000 - 15 * 86_400;
    utimesSync(old, fifteenDaysAgo, fifteenDaysAgo);
    const env = {
      ...ENV,
      PATH,
      HOME: temporaryFolder(),
      DATABASE_URL: `file:${join(server.folder, 'data/keys.db')}`,
      NODE_ENV: 'production',
    };
    for (const command of commands) {
      const here = command
        .replaceAll('/var/lib/mcp-key-server-backups', backups)
        .replaceAll('/usr/local/bin/bun', process.execPath);
      expect(await run(['bash', '-c', here], { cwd: ROOT, env })).toMatchObject({ code: 0 });
    }
    const [kept, ...others] = readdirSync(backups);
    expect(others).toEqual([]);
    expect(kept).toMatch(/^keys-\d{4}-\d\d-\d\dT\d{6}\.db$/);
    expect(statSync(join(backups, kept ?? '')).mode & 0o777).toBe(0o600);
  });
});

test.skipIf(Bun.which('curl') === null)('each step of a CI job has a key of its own, which ends with it', async () => {
  await using app = await createTestApp();
  const parent = await app.createKey('alice', { scopes: ['read', 'write', 'delegate'] });
  const cwd = temporaryFolder();
  const says = `#!/bin/sh
curl -sS "$KEYS_URL/tools/whoami" -H "X-API-Key: $API_KEY" --json '{}' && printf '\\n%s %s\\n' "$API_KEY" "\${JOB_KEY-none}"
`;
  for (const [step, ends] of Object.entries({ 'fetch-orders': 'exit 0', publish: 'exit 3' }))
    writeFileSync(join(cwd, step), says + ends, { mode: 0o755 });
  const curl = noting('curl');
  const env = { PATH: curl.path, KEYS_URL: app.url, JOB_KEY: parent.key };
  const runJob = (changed: object = {}) =>
    run([join(ROOT, 'tests/recipes/ci-steps.sh')], { cwd, env: { ...env, ...changed } });
  const { code, stdout } = await runJob();
  const [fetching = '', itsKey = '', publishing = '', otherKey = ''] = stdout.trim().split('\n');
  expect(code).toBe(3); // that of the step that failed
  const child = { parentId: parent.id, expiresAt: app.clock.nowMs() + 600_000 };
  expect(JSON.parse(fetching)).toMatchObject({ ...child, name: 'fetch orders', scopes: ['read'] });
  expect(JSON.parse(publishing)).toMatchObject({ ...child, name: 'publish', scopes: ['write'] });
  for (const line of [itsKey, otherKey]) {
    const [key = '', jobKey] = line.split(' ');
    expect([jobKey, (await app.call('whoami', {}, { 'x-api-key': key })).status]).toEqual(['none', 401]);
  }
  expect((await app.call('whoami', {}, { 'x-api-key': parent.key })).status).toBe(200);
  expect(curl.noted().filter((line) => line.includes(parent.key))).toEqual([]);

  // A step whose key is refused doesn't run, and the job says why.
  const { key: JOB_KEY } = await app.createKey('alice', { scopes: ['write', 'delegate'] });
  const without = await runJob({ JOB_KEY });
  expect(without).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('"error":"invalid_scope"') });
});
