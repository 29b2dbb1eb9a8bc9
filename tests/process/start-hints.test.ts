// What a start says that helps the person who started it: a command that works as printed, and what will soon be wrong.

import { describe, expect, test } from 'bun:test';
import { chmodSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { makeCertificate } from '../support/certificate.ts';
import { callOver } from '../support/client.ts';
import { output } from '../support/command.ts';
import { rows } from '../support/everything.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { createIssuer, JWKS_PATH } from '../support/issuer.ts';
import { logOf, type ServerProcess, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { toolFile } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

const ROOT = join(import.meta.dir, '../..');
const DAY_MS = 86_400_000;

async function logged(server: ServerProcess, event: string): Promise<Record<string, unknown>> {
  const find = () => logOf(server).find((line) => line.event === event);
  await waitFor(() => find() !== undefined);
  return find();
}

const hintOf = (server: ServerProcess) => /sign in \(mint a token\) +(.*)\n/.exec(server.stderr())?.[1] ?? '';

/** Typed where the server was started: there `bun run token` is the script of this repository. */
function typed(command: string, cwd: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
  const own = join(diskFolder(), 'bin'); // a folder of the PATH
  mkdirSync(own);
  symlinkSync(process.execPath, join(own, 'bun'));
  const here = command.replace(/(npx -y bun@[\d.]+|bun) run token/, `bun "${ROOT}/src/commands/token.ts"`);
  return output(['sh', '-c', here], { cwd, env: { PATH: `${own}:${process.env.PATH}`, ...env } });
}

async function accepts(url: string, token: string): Promise<void> {
  const headers = { authorization: `Bearer ${token.trim()}` };
  expect((await callOver(url, 'list_api_keys', {}, headers)).status).toBe(200);
}

/** The server that a link opens, and the token in it. */
function linked(link: string): [url: string, token: string] {
  const [url = '', token = ''] = link.split('/keys#token=');
  return [url, token];
}

test('the command of the package is run by bunx, unless it is on the PATH', async () => {
  const folder = diskFolder();
  const bin = fill(diskFolder(), { 'mcp-key-server': '' });
  chmodSync(join(bin, 'mcp-key-server'), 0o755);
  symlinkSync(process.execPath, join(bin, 'bun'));
  const command = [process.execPath, join(ROOT, 'src/cli.ts')];
  await using onPath = await startServer({ command, folder, env: { PATH: bin } });
  expect(hintOf(onPath)).toMatch(/^PUBLIC_URL=\S+ mcp-key-server token /);
  rmSync(join(bin, 'mcp-key-server'));
  await using server = await startServer({ command, folder: diskFolder(), env: { PATH: bin } });
  expect(hintOf(server)).toMatch(/^PUBLIC_URL=\S+ bunx mcp-key-server token /);
});

describe.each(rows(['bun', 'deno'] as const, 1))('on %s', (runtime) => {
  test.each([
    ['a prefix', { BASE_PATH: '/api' }],
    [
      'a host, and a database in a folder whose name a shell would take apart',
      { HOST: 'localhost', DATABASE_URL: "file:./it's $HOME/deep/er/my.db" },
    ],
    ['an issuer and an audience of its own', { JWT_ISSUER: 'me & you', JWT_AUDIENCE: 'keys' }],
    ['keys that teams own, by a claim whose name a shell would take apart', { JWT_OWNER_CLAIM: 'https://x/$team' }],
  ])('the command of the banner works as printed, with %s', async (_what, env: Record<string, string>) => {
    const folder = diskFolder();
    const secret = env.JWT_ISSUER === undefined ? {} : { JWT_SECRET: TEST_SECRET };
    await using server = await startServer({ runtime, folder, env: { ...env, ...secret } });
    await accepts(server.url, await typed(hintOf(server), folder, secret));
    await accepts(...linked(await typed(`${hintOf(server)} --link`, folder, secret)));
    const says = server.stderr().includes('where JWT_SECRET is set as it is here');
    expect(says).toBe(env.JWT_ISSUER !== undefined);
    expect(server.stderr()).toMatch(/tools of your own +none: \.\/tools does not exist\n/);

    if (env.BASE_PATH === undefined) return;
    const page = await (await fetch(`${server.url}/keys`)).text(); // it shows no value of a setting
    const [, shown] = /"mints":"([^"]+)"/.exec(page) ?? [];
    const link = await typed(`${shown} --sub alice --link`, folder);
    expect(link).toStartWith(`${server.url}/keys#token=`);
    await accepts(...linked(link));
  });

  test('what comes from which file of the folder is in the banner and the first line; or that it has none', async () => {
    const folder = fill(diskFolder(), { 'tools/b.ts': toolFile('second'), 'tools/a.ts': toolFile('first') });
    await using server = await startServer({ runtime, folder });
    expect(await logged(server, 'started')).toMatchObject({
      tools: { 'tools/a.ts': ['first'], 'tools/b.ts': ['second'] },
    });
    expect(server.stderr()).toMatch(/own +first \(tools\/a\.ts\)\n.*own +second \(tools\/b\.ts\)\n/);
    await using empty = await startServer({ runtime, folder: fill(diskFolder(), { 'tools/_part.ts': '' }) });
    expect(empty.stderr()).toMatch(/tools of your own +none: \.\/tools has none\n/);
  });

  const certificateFor = (days: number) => {
    const end = new Date(Date.now() + days * DAY_MS);
    const { certFile, keyFile } = makeCertificate(end);
    return { end: `${end.toISOString().slice(0, -5)}.000Z`, env: { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } };
  };

  test.each([
    ['has expired', -1, 'certificate has expired'],
    ['ends within 14 days', 13, 'certificate ends soon'],
  ])('a certificate that %s, and a key set out of reach, are warnings at the start', async (_what, days, event) => {
    const { end, env } = certificateFor(days);
    await using server = await startServer({ runtime, env: { ...env, JWT_JWKS_URL: 'http://127.0.0.1:1/keys' } });
    expect(await logged(server, event)).toMatchObject({ level: 'warn', end });
    expect(await logged(server, 'key set out of reach')).toMatchObject({ level: 'warn' });
  });

  test('a good certificate, and a key set that is there, are none', async () => {
    await using issuer = await createIssuer();
    const env = { ...certificateFor(15).env, JWT_JWKS_URL: issuer.jwksUrl };
    const server = await startServer({ runtime, env });
    await waitFor(() => issuer.hits(JWKS_PATH) > 0);
    expect(await server.stop()).toBe(0);
    expect(logOf(server).filter(({ level }) => level !== 'info')).toEqual([]);
  });
});
