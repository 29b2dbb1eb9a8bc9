// The executable, alone in a folder: it serves with a tools folder, in all three store modes, and mints tokens.

import { expect, test } from 'bun:test';
import { copyFileSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { output } from '../support/command.ts';
import { openDatabase } from '../support/database-client.ts';
import { readDocument } from '../support/documents.ts';
import { fillKeys } from '../support/fill.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { post } from '../support/mcp.ts';
import { executable } from '../support/packed.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { transportOf } from '../support/transports.ts';
import { waitFor } from '../support/wait-for.ts';

const built = await executable();

/** A folder with the executable, moved from where it was built, and the README's tool. */
function folderWithTool(): string {
  const tool = readDocument('README.md').codeBlock('A tool of your own', 'ts');
  const folder = fill(diskFolder(), { 'tools/list-orders.ts': tool });
  copyFileSync(built, join(folder, 'key server'));
  return folder;
}

const start = (folder: string, env: Record<string, string> = {}) =>
  startServer({ command: [join(folder, 'key server')], folder, env });

/** Creates a key, calls the tool with it over every transport, and revokes it. */
async function live(server: ServerProcess, headers: Record<string, string>): Promise<void> {
  const input = { name: 'n', scopes: ['read:orders'] };
  const { id, key } = (await callOver(server.url, 'create_api_key', input, headers)).body;
  for (const transport of [0, 1, 3]) {
    const called = await transportOf(transport, server.url)('list_orders', {}, { 'x-api-key': key });
    expect(called).toMatchObject({ kind: 'ok', output: { owner: 'alice' } });
  }
  expect((await callOver(server.url, 'revoke_api_key', { keyId: id }, headers)).status).toBe(200);
  expect((await callOver(server.url, 'list_orders', {}, { 'x-api-key': key })).body.code).toBe('invalid_api_key');
}

test('a program that was compiled with the server hints at no command, because it has none', async () => {
  const start = join(import.meta.dir, '../../src/start/package/index.ts');
  const main = `import { start } from ${JSON.stringify(start)};\nawait start({ tools: [] });\n`;
  const folder = fill(diskFolder(), { 'main.ts': main });
  await output([process.execPath, 'build', '--compile', 'main.ts', '--outfile', 'shop'], { cwd: folder });
  for (const [env, secret] of [
    [{}, 'with a secret that was made up; set JWT_SECRET'],
    [{ JWT_SECRET: TEST_SECRET }, 'with JWT_SECRET'],
  ] as const) {
    await using server = await startServer({ command: [join(folder, 'shop')], folder, env });
    expect(server.stderr()).toContain(`  user tokens are signed   ${secret}\n`);
    expect(server.stderr()).not.toMatch(/\btoken --/);
    expect(await (await fetch(`${server.url}/keys`)).text()).toContain('"links":false,"mints":null');
  }
});

test('the executable serves a file of its own with nothing configured, and a token that it mints', async () => {
  const folder = folderWithTool();
  await using server = await start(folder);
  const typed = /sign in \(mint a token\) +(.*)\n/.exec(server.stderr())?.[1] ?? '';
  expect(typed).toBe(`PUBLIC_URL=${server.url} './key server' token --sub alice`);
  const token = await output(['sh', '-c', typed], { cwd: folder });
  await live(server, { authorization: `Bearer ${token.trim()}` });
  expect(await (await fetch(`${server.url}/widgets/preview`)).text()).toContain('api-key-created');
  expect(readdirSync(folder).sort()).toEqual(['data', 'key server', 'tools']);
  expect(await server.stop()).toBe(0);
});

test('the keys command of the executable creates, lists and backs up, on a file and on a remote database', async () => {
  const folder = folderWithTool();
  await using sqld = await startSqld();
  for (const database of [{}, sqld.env]) {
    const env = { JWT_SECRET: TEST_SECRET, ...database };
    const keys = (...args: string[]) => output([join(folder, 'key server'), 'keys', ...args], { cwd: folder, env });
    await using server = await start(folder, env);
    const key = await keys('create', '--user', 'alice', '--name', 'n', '--scope', 'read:orders', '--days', '1');
    expect((await callOver(server.url, 'list_orders', {}, { 'x-api-key': key.trim() })).body.owner).toBe('alice');
    expect(JSON.parse(await keys('list', '--json'))).toMatchObject({ owner: 'alice', name: 'n' });
    const backup = join(diskFolder(), 'backup.db');
    await keys('backup', backup);
    expect(readFileSync(backup).subarray(0, 15).toString()).toBe('SQLite format 3');
  }
});

test('the executable serves a remote database, and a replica of it', async () => {
  await using sqld = await startSqld();
  const env = { JWT_SECRET: TEST_SECRET, ...sqld.env };
  const folder = folderWithTool();
  await using remote = await start(folder, env);
  await live(remote, await userHeaders('alice'));
  const primary = openDatabase(sqld.url);
  await fillKeys(primary, 1000); // a thread writes many
  primary.close();
  await using replica = await start(folder, { ...env, DATABASE_REPLICA_FILE: './replica.db' });
  await waitFor(async () => (await (await fetch(`${replica.url}/mcp/health`)).json()).store.replica === 'in_use');
  await live(replica, await userHeaders('alice'));
  expect(existsSync(join(folder, 'replica.db'))).toBe(true);
  expect([await replica.stop(), await remote.stop()]).toEqual([0, 0]);
});

test('a tool file uses a package beside it and brings a page, and .env is read', async () => {
  const page = readDocument('src/tools/README.md')
    .codeBlock('The folder', 'ts')
    .replace("'<!doctype html><title>Orders</title>'", 'greet()');
  const folder = fill(diskFolder(), {
    '.env': 'PUBLIC_URL=https://from.file\n',
    'node_modules/greeting/package.json': '{ "name": "greeting", "main": "index.js", "type": "module" }',
    'node_modules/greeting/index.js': "export default () => 'Hello';",
    'tools/page.ts': `import type { Resource } from 'mcp-key-server';
import greet from 'greeting';
export default () => [];
${page}`,
  });
  copyFileSync(built, join(folder, 'key server'));
  await using server = await start(folder, { ALLOWED_HOSTS: '127.0.0.1' });
  expect(server.stderr()).toContain('https://from.file/mcp');
  const read = { jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: 'ui://widget/orders.html' } };
  const { body } = await post(server, read);
  expect(body.result.contents[0].text).toBe('Hello');
});

test('a tool file that imports a package that is not there stops the start; nothing is fetched', async () => {
  const folder = folderWithTool();
  fill(folder, { 'tools/a.ts': "import isNumber from 'is-number';\nexport default () => [isNumber];\n" });
  const failing = start(folder).then(
    () => 'started',
    (error) => String(error),
  );
  expect(await failing).toContain("mcp-key-server: tools/a.ts: Cannot find package 'is-number'");
});
