// sqld.md, pasted as it stands: a key and a token, a file moved to sqld, a backup, and its restoring.

import { afterAll, expect, test } from 'bun:test';
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { noting, run } from '../support/command.ts';
import { ROOT, readDocument } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { freePorts, ready } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const RECIPE = readDocument('tests/recipes/sqld.md');
const MISSING = ['openssl', 'curl', 'sqlite3'].filter((program) => Bun.which(program) === null);
if (MISSING.length > 0) console.warn(`sqld.md is not tested: ${MISSING.join(', ')} missing`);

const folder = temporaryFolder();
const [port] = freePorts(1);
const url = `http://127.0.0.1:${port}`;
const linesOf = (section: string) => RECIPE.codeBlock(section, 'sh').replaceAll('127.0.0.1:8080', `127.0.0.1:${port}`);
const curl = noting('curl');
const PATH = `${join(ROOT, 'node_modules/.bin')}:${curl.path}`;

/** Runs a section's lines in the folder. Returns what they print. */
async function paste(section: string): Promise<string> {
  const { code, stdout, stderr } = await run(['sh', '-euc', linesOf(section)], { cwd: folder, env: { PATH } });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

let sqld: Bun.Subprocess | undefined;

async function startSqld(): Promise<void> {
  const command = `exec ${linesOf('Start it')}`;
  sqld = Bun.spawn(['sh', '-euc', command], { cwd: folder, env: { PATH }, stdout: 'ignore', stderr: 'ignore' });
  await ready(url, sqld);
}

async function stopSqld(): Promise<void> {
  sqld?.kill('SIGKILL');
  await sqld?.exited;
}

afterAll(stopSqld);

const alice = await userHeaders('alice');
const list = async (server: ServerProcess) => (await callOver(server.url, 'list_api_keys', {}, alice)).body.keys;
const use = async (server: ServerProcess, key: string) =>
  (await callOver(server.url, 'get_data', {}, { 'x-api-key': key })).status;
/** The time in which a revocation is noticed is not what is tested: a busy machine may need more. */
const env = { JWT_SECRET: TEST_SECRET, REVOCATION_LAG_MAX_MS: '60000' };

async function startOnSqld(): Promise<ServerProcess> {
  const DATABASE_AUTH_TOKEN = await Bun.file(join(folder, 'sqld-token')).text();
  return startServer({ env: { ...env, DATABASE_URL: url, DATABASE_AUTH_TOKEN } });
}

test.skipIf(MISSING.length > 0)(
  'keys move from a file to sqld, and from a backup to an empty one',
  async () => {
    await using onFile = await startServer({ env, folder });
    const create = async (name: string, server: ServerProcess) =>
      (await callOver(server.url, 'create_api_key', { name, scopes: ['read'] }, alice)).body;
    const [used, revoked] = [await create('it\'s "a" \\ ü', onFile), await create('revoked', onFile)];
    expect([await use(onFile, used.key), await use(onFile, revoked.key)]).toEqual([200, 200]);
    await callOver(onFile.url, 'revoke_api_key', { keyId: revoked.id }, alice);
    const before = await list(onFile);
    await onFile.stop();

    await paste('A key and a token');
    expect(statSync(join(folder, 'sqld-key.pem')).mode & 0o077).toBe(0);
    expect(statSync(join(folder, 'sqld-token')).mode & 0o077).toBe(0);
    expect(statSync(join(folder, 'sqld-header')).mode & 0o077).toBe(0);
    await startSqld();
    expect((await fetch(`${url}/dump`)).status).toBe(401); // not without a token
    await paste('From a file to sqld');
    expect(await paste('Restore')).toContain('"type":"ok"');

    await using moved = await startOnSqld();
    expect(await list(moved)).toEqual(before);
    expect([await use(moved, used.key), await use(moved, revoked.key)]).toEqual([200, 401]);
    const later = await create('later', moved);
    expect(await paste('Backup')).toBe('COMMIT;\n');
    await moved.stop();

    // A database that is not empty stays what it is.
    expect(await paste('Restore')).toContain('"type":"error"');
    await stopSqld();
    rmSync(join(folder, 'data.sqld'), { recursive: true });
    await startSqld();
    expect(await paste('Restore')).toContain('"type":"ok"');
    await using restored = await startOnSqld();
    expect((await list(restored)).map(({ name }: { name: string }) => name)).toEqual([
      'later',
      ...before.map(({ name }: { name: string }) => name),
    ]);
    expect([await use(restored, later.key), await use(restored, revoked.key)]).toEqual([200, 401]);
    const token = await Bun.file(join(folder, 'sqld-token')).text();
    expect(curl.noted().filter((line) => line.includes(token))).toEqual([]);
  },
  180_000,
);
