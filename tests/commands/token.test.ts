// `bun run token`: one JWT on stdout. process/start-hints.test.ts has servers that take it.

import { describe, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeJwt, jwtVerify } from 'jose';
import { main } from '../../src/commands/token.ts';
import { temporaryFolder } from '../support/folder.ts';
import { inProcess } from '../support/keys-command.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const mint = (args: readonly string[], env: Record<string, string> = {}, folder = temporaryFolder()) =>
  inProcess(main, { DATABASE_URL: `file:${join(folder, 'data/keys.db')}`, ...env }, args);

test('it prints one JWT and nothing else, signed with a secret that it makes once, and says so', async () => {
  const folder = temporaryFolder();
  const { code, stdout, stderr } = await mint(['--sub', 'alice'], {}, folder);
  const said = `made a secret in ${folder}/data/jwt-secret: a server that keeps its own elsewhere refuses the token\n`;
  expect({ code, stderr }).toEqual({ code: 0, stderr: said });
  expect(stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
  const secret = readFileSync(join(folder, 'data/jwt-secret'));
  const { payload } = await jwtVerify(stdout.trim(), Buffer.from(secret.toString().trim()));
  expect(payload.sub).toBe('alice');
  expect((await mint(['--sub', 'alice'], {}, folder)).stderr).toBe('');
  expect(readFileSync(join(folder, 'data/jwt-secret'))).toEqual(secret);
});

test('it lasts 24 hours, or as long as --expires says', async () => {
  for (const [args, seconds] of [
    [[], 86_400],
    [['--expires', '30s'], 30],
    [['--expires=30s'], 30],
    [['--expires', '7d'], 604_800],
  ] as const) {
    const { stdout } = await mint(['--sub', 'alice', ...args]);
    const { exp = 0, iat = 0, sub } = decodeJwt(stdout.trim());
    expect({ sub, seconds: exp - iat }).toEqual({ sub: 'alice', seconds });
  }
});

test('it carries the configured issuer and audience', async () => {
  const env = { JWT_SECRET: TEST_SECRET, JWT_ISSUER: 'me', JWT_AUDIENCE: 'keys' };
  expect(decodeJwt((await mint(['--sub', 'alice'], env)).stdout.trim())).toMatchObject({ iss: 'me', aud: 'keys' });
});

test('it carries the claims it is told to, but sub and exp are its own', async () => {
  const args = ['--claim', 'scope=read write', '--claim=org_id=a=b', '--claim', 'sub=mallory', '--claim', 'exp=1'];
  const { stdout } = await mint(['--sub', 'alice', ...args]);
  const { exp, iat, ...claims } = decodeJwt(stdout.trim());
  expect(claims).toEqual({ sub: 'alice', scope: 'read write', org_id: 'a=b' });
  expect(exp).toBe((iat ?? 0) + 86_400);
});

test('without the claim that names the owner it says that the server refuses the token', async () => {
  const env = { JWT_SECRET: TEST_SECRET, JWT_OWNER_CLAIM: 'org_id' };
  const { code, stdout, stderr } = await mint(['--sub', 'alice'], env);
  const said = 'the server refuses this token: with JWT_OWNER_CLAIM=org_id it needs --claim org_id=…\n';
  expect({ code, stderr }).toEqual({ code: 0, stderr: said });
  expect(decodeJwt(stdout.trim()).sub).toBe('alice');
  expect((await mint(['--sub', 'alice', '--claim', 'org_id=acme'], env)).stderr).toBe('');
});

describe('--link', () => {
  test.each([
    ['15 minutes at the page of this server', { PORT: '8080' }, [], 'http://127.0.0.1:8080/keys', 900],
    [
      'as long as it is told, at the address that people see',
      { PUBLIC_URL: 'https://keys.example/api', PORT: '0' },
      ['--expires', '1h'],
      'https://keys.example/api/keys',
      3600,
    ],
  ])('prints one line, with a token that is good for %s', async (_, env, more, expected, seconds) => {
    const { code, stdout, stderr } = await mint(['--sub', 'bob', '--link', ...more], {
      JWT_SECRET: TEST_SECRET,
      ...env,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [, page, token = ''] = /^(.+)#token=(.+)\n$/.exec(stdout) ?? [];
    const { exp = 0, iat = 0, sub } = decodeJwt(token);
    expect({ page, sub, seconds: exp - iat }).toEqual({ page: expected, sub: 'bob', seconds });
  });

  test('says which server the link is for, where this terminal does not name one', async () => {
    const { stdout, stderr } = await mint(['--sub', 'bob', '--link'], { JWT_SECRET: TEST_SECRET });
    expect(stdout).toStartWith('http://127.0.0.1:3000/keys#token=');
    expect(stderr).toBe('for the server at 127.0.0.1:3000; for one elsewhere, set its PORT or PUBLIC_URL here too\n');
  });

  test.each([
    [{ PORT: '0' }, 'token: --link: the address is not known, because PORT is 0; set PUBLIC_URL\n'],
    [{ KEYS_PAGE: '0' }, 'token: --link: there is no page to link to, because KEYS_PAGE is 0\n'],
    [
      { JWT_ISSUER: 'https://id.example' },
      'token: tokens come from the issuer here: JWT_ISSUER or JWT_JWKS_URL is set\n',
    ],
  ])('where there can be no link says so in a line, and exits with 2: %j', async (env, said) => {
    expect(await mint(['--sub', 'bob', '--link'], env)).toEqual({ code: 2, stdout: '', stderr: said });
  });
});

describe('what it cannot do is said on stderr, with a non-zero exit', () => {
  test('a secret that cannot be used, in one line', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'data'));
    writeFileSync(join(folder, 'data/jwt-secret'), 'short\n', { mode: 0o600 });
    const { code, stdout, stderr } = await mint(['--sub', 'alice'], {}, folder);
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^token: JWT_SECRET: not set, and .* it is too short; delete it, .*\n$/),
    });
  });

  test.each([
    [[], {}, '--sub: expected 1 to 255 characters without control characters\nusage: token --sub user'],
    [['--sub'], {}, 'usage'],
    [['--sub', ''], {}, 'usage'],
    [['alice'], {}, 'usage'],
    [['--sub', '--expires'], {}, 'usage'], // not for a user of this name
    [['--sub', 'alice', '--admin', 'yes'], {}, 'usage'],
    [['--sub', 'alice', '--expires', 'soon'], {}, '--expires: expected a time like 30s'],
    [['--sub', 'alice', '--expires', '1200000d'], {}, '--expires: expected an end that servers take'],
    [['--sub', 'alice', '--claim', 'scope'], {}, '--claim: expected <name>=<value>'],
    [['--sub', 'alice', '--claim', '=read'], {}, '--claim: expected <name>=<value>'],
    [['--sub', 'a\nb'], {}, '--sub: expected 1 to 255 characters without control characters'],
    [['--sub', 'a'.repeat(256)], {}, '--sub: expected 1 to 255 characters'],
    [['--sub', 'alice'], { JWT_SECRET: 'short' }, 'JWT_SECRET: expected at least 32 bytes'],
    [['--sub', 'alice'], { JWT_ISSUER: 'https://id.example' }, 'tokens come from the issuer'],
  ] as [string[], Record<string, string>, string][])(
    '%# is refused with a line, and no secret is made',
    async (args, env, said) => {
      const folder = temporaryFolder();
      const { code, stdout, stderr } = await mint(args, env, folder);
      expect({ code, stdout }).toEqual({ code: said.startsWith('JWT_SECRET') ? 1 : 2, stdout: '' });
      expect(stderr).toContain(said);
      expect(readdirSync(folder)).toEqual([]);
    },
  );
});
