// `keys rule`: what operators type, and what they are told.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { childOf } from '../../support/children.ts';
import { databaseOf, executeAt } from '../../support/database-client.ts';
import { createKey } from '../../support/issuer.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';
import { SUBJECT, startWorkload, type Workload } from './workload.ts';

let workload: Workload;
beforeEach(async () => {
  workload = await startWorkload();
});
afterEach(() => workload[Symbol.asyncDispose]());

const ownEnv = () => ({ DATABASE_URL: databaseOf(workload.app), PUBLIC_URL: 'https://tools.example' });

async function add(...options: string[]) {
  const issuer = options.includes('--issuer') ? [] : ['--issuer', workload.issuer.url];
  return keysCommand(ownEnv(), ['rule', 'add', workload.keyId, ...issuer, ...options]);
}

async function rsaKeyOf(modulusLength: number) {
  const algorithm = {
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    modulusLength,
    publicExponent: new Uint8Array([1, 0, 1]),
  };
  const { publicKey } = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const { kty, n, e } = await crypto.subtle.exportKey('jwk', publicKey);
  return { kty, n, e };
}

/** As Keycloak publishes one beside those that it signs with. */
const ENCRYPTING = { ...(await rsaKeyOf(2048)), use: 'enc', alg: 'RSA-OAEP', kid: 'enc' };

const listed = async () => jsonLines(await keysCommand(ownEnv(), ['rule', 'list', '--json']));

const CLAIMS = 'abcdefghijk'.split('');

describe('keys rule add', () => {
  test.each<[string, string[], number, RegExp]>([
    ['no subject', [], 2, /--subject/],
    ['a subject that is all', ['--subject', '*'], 2, /--subject: expected/],
    ['a subject that could be another owner', ['--subject', 'repo:acme/app*'], 2, /--subject: expected the \*/],
    ['the issuer as audience', ['--subject', 'a', '--audience', 'ISSUER'], 2, /--audience: expected/],
    ['six audiences', ['--subject', 'a', ...'uvwxyz'.split('').flatMap((a) => ['--audience', a])], 2, /at most 5/],
    ['a claim without a value', ['--subject', 'a', '--claim', 'a='], 2, /--claim: expected/],
    ['a claim twice', ['--subject', 'a', '--claim', 'a=1', '--claim', '/a=2'], 2, /each name once/],
    ['11 claims', ['--subject', 'a', ...CLAIMS.flatMap((name) => ['--claim', `${name}=1`])], 2, /at most 10/],
    ['an empty scope', ['--subject', 'a', '--scope', ''], 2, /--scope/],
    ['two scopes in one', ['--subject', 'a', '--scope', 'read write'], 2, /--scope/],
    ['an issuer with a query', ['--issuer', 'https://a.example/?b', '--subject', 'a'], 2, /--issuer: expected/],
    ['an issuer with an empty user', ['--issuer', 'https://@a.example', '--subject', 'a'], 2, /--issuer: expected/],
    ['an issuer with a backslash', ['--issuer', 'https://a.example/b\\c', '--subject', 'a'], 2, /--issuer: expected/],
    ['an issuer over plain HTTP', ['--issuer', 'http://a.example', '--subject', 'a'], 2, /--issuer: expected/],
    ['a key set over plain HTTP', ['--subject', 'a', '--jwks', 'http://a.example/jwks'], 2, /--jwks: expected/],
    [
      'a key set on loopback of an issuer that is not',
      ['--issuer', 'https://a.example', '--subject', 'a', '--jwks', 'http://127.0.0.1/jwks'],
      2,
      /--jwks: expected/,
    ],
    [
      'a file that is not there',
      ['--subject', 'a', '--jwks', '/none/jwks.json'],
      1,
      /--jwks: the file can't be read: ENOENT/,
    ],
    ['a folder as key set', ['--subject', 'a', '--jwks', '/'], 1, /--jwks: the file can't be read: EISDIR/],
    ['a rule that a token could fit beside', ['--subject', 'repo:acme/*'], 1, /could fit rule [0-9a-f]{32}/],
    [
      'a name of GitHub without an id',
      [
        '--issuer',
        'https://token.actions.githubusercontent.com',
        '--subject',
        'repo:acme/app:ref:x',
        '--jwks',
        'https://a.example',
      ],
      1,
      /repository_owner_id/,
    ],
  ])('refuses %s, and changes nothing', async (_, options, expected, says) => {
    const given = options.map((option) => (option === 'ISSUER' ? workload.issuer.url : option));
    const before = await listed();
    const { code, stdout, stderr } = await add(...given);
    expect({ code, stdout }).toEqual({ code: expected, stdout: '' });
    expect(stderr).toMatch(says);
    expect(await listed()).toEqual(before);
  });

  test('the same rule again, in another order: its id, and nothing changed', async () => {
    const first = await add(...'--subject other --claim b=2 --claim a=1 --audience y --audience x'.split(' '));
    const again = await add(...'--audience x --audience y --claim /a=1 --claim b=2 --subject other'.split(' '));
    expect([again.code, again.stdout]).toEqual([0, first.stdout]);
    expect(await listed()).toHaveLength(2);
  });

  test('a key that has expired is refused as such, though its owner is blocked, too', async () => {
    await workload.app.keys('block', 'acme', '--yes');
    expect(await add('--subject', 'repo:acme/app:other')).toMatchObject({ code: 0 });
    await executeAt(ownEnv().DATABASE_URL, 'UPDATE api_keys SET expires_at_ms = 1');
    const added = await add('--subject', 'repo:acme/app:third');
    expect(added).toMatchObject({ code: 1, stderr: expect.stringContaining('the key is expired') });
  });

  test('a key that was revoked or deleted is refused, and so is a child', async () => {
    const parent = await workload.app.createKey('alice', { scopes: ['read', 'delegate'] });
    const child = await childOf(workload.app, parent.key);
    const refusal = async (keyId: string) => {
      const { issuer } = workload;
      const args = ['rule', 'add', keyId, '--issuer', issuer.url, '--subject', 'a', '--jwks', issuer.jwksUrl];
      const { code, stderr } = await keysCommand(ownEnv(), args);
      return [code, stderr];
    };
    const none = [1, 'keys: there is no key of this id (a child has no rules)\n'];
    expect(await refusal(child.id)).toEqual(none);
    await workload.app.keys('revoke', parent.id, '--yes');
    expect(await refusal(parent.id)).toEqual([1, 'keys: the key is revoked\n']);
    await workload.app.call('delete_api_key', { keyId: parent.id }, await bearer(workload.app, 'alice'));
    expect(await refusal(parent.id)).toEqual(none);
  });

  test.each<[number, string, string | null, string | null]>([
    [20, 'the key has 20 rules', null, 'https://a.example'],
    [1000, 'there are 1000 rules', 'another', 'https://a.example'],
    [50, 'there are rules of 50 issuers', 'another', null],
  ])(
    'the rule beyond the maximum of %p is refused, the one before it is not: %s',
    async (most, says, keyId, issuer) => {
      // With the one that there is, and the one that is added.
      const typed = Array.from({ length: most - 2 }, (_, at) => `https://${at}.example`);
      await executeAt(ownEnv().DATABASE_URL, {
        sql: `INSERT INTO rules (id, key_id, hash, issuer, subject, audiences, claims, created_at_ms)
SELECT value, ?2, value, coalesce(?3, value), value, '[]', '[]', 0 FROM json_each(?1)`,
        args: [JSON.stringify(typed), keyId ?? workload.keyId, issuer],
      });
      await executeAt(
        ownEnv().DATABASE_URL,
        'INSERT INTO issuers (issuer) SELECT DISTINCT issuer FROM rules WHERE true ON CONFLICT DO NOTHING',
      );
      const addOf = (one: string) =>
        add('--issuer', issuer ?? one, '--subject', one, '--jwks', 'https://a.example/jwks');
      expect((await addOf('https://a.example')).code).toBe(0);
      const beyond = await addOf('https://b.example');
      expect(beyond).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(says) });
      expect(await listed()).toHaveLength(most);
    },
  );

  test('scopes that the key lacks are a warning', async () => {
    const added = await add('--subject', 'a', '--scope', 'read', '--scope', 'raed');
    expect(added).toMatchObject({ code: 0, stderr: expect.stringContaining('so no token gets them: raed') });
    expect((await keysCommand(ownEnv(), ['rule', 'list'])).stdout).toMatch(/ a +default +- +raed read +fetch /);
    const { stderr } = await add('--subject', 'b', '--scope', 'read');
    expect(stderr).not.toContain('lacks');
  });

  test('metadata of another issuer refuses, and one that is away is a warning', async () => {
    const { issuer } = workload;
    const other = `${issuer.url}/other`;
    issuer.overrides.set('/.well-known/oauth-authorization-server/other', () =>
      Response.json({ issuer: 'https://elsewhere.example', jwks_uri: issuer.jwksUrl }),
    );
    const refused = await add('--issuer', other, '--subject', 'a');
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toContain('https://elsewhere.example');
    expect(refused.stderr).toContain(other);
    issuer.overrides.clear();
    const file = `${workload.app.folder}/jwks.json`;
    await Bun.write(file, JSON.stringify({ keys: [(await createKey('ES256')).jwk] }));
    expect((await add('--subject', SUBJECT, '--jwks', file)).code).toBe(0);
    issuer.overrides.set('/.well-known/oauth-authorization-server', () =>
      Response.json({ issuer: 'https://elsewhere.example', jwks_uri: issuer.jwksUrl }),
    );
    expect((await add('--subject', 'another')).code).toBe(0); // its issuer's key set is known
    const again = await add('--subject', SUBJECT, '--jwks', 'fetch');
    expect(again).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('https://elsewhere.example') });
    expect(await listed()).toMatchObject([
      { id: workload.ruleId, keySet: 'file' },
      { subject: 'another', keySet: 'file' },
    ]);
    issuer.overrides.clear();
    const added = await add('--issuer', other, '--subject', 'a');
    expect(added.code).toBe(0);
    expect(added.stderr).toContain("can't be found now");
  });

  test.each<[string, () => Promise<object>, boolean]>([
    ['one public key', async () => ({ keys: [(await createKey('ES256')).jwk] }), true],
    ['no key', async () => ({ keys: [] }), false],
    ['51 keys', async () => ({ keys: Array(51).fill((await createKey('ES256')).jwk) }), false],
    ['a shared secret', async () => ({ keys: [{ kty: 'oct', k: 'AAAA' }] }), false],
    ['a shared secret without its value', async () => ({ keys: [{ kty: 'oct' }] }), false],
    ['a private key', async () => ({ keys: [{ ...(await createKey('ES256')).jwk, d: 'AAAA' }] }), false],
    ['a key that is too short', async () => ({ keys: [await rsaKeyOf(1024)] }), false],
    ['a key of the least length', async () => ({ keys: [await rsaKeyOf(2048)] }), true],
    ['a key that is none', async () => ({ keys: [{ kty: 'RSA' }] }), false],
    ['a key to encrypt with beside one', async () => ({ keys: [ENCRYPTING, (await createKey('ES256')).jwk] }), true],
    ['a key to encrypt with alone', async () => ({ keys: [ENCRYPTING] }), false],
    ['one that does not say its use', async () => ({ keys: [{ ...ENCRYPTING, use: undefined }] }), false],
    ['no set', async () => [], false],
    [
      'more than 64 KiB',
      async () => ({ keys: [{ ...(await createKey('ES256')).jwk, note: 'A'.repeat(65_536) }] }),
      false,
    ],
    ...['EdDSA', 'ES256', 'ES384', 'ES512', 'RS256'].map((alg): [string, () => Promise<object>, boolean] => [
      `a key for ${alg} that does not say so`,
      async () => ({ keys: [{ ...(await createKey(alg)).jwk, alg: undefined }] }),
      true,
    ]),
    [
      'a key for another algorithm',
      async () => ({ keys: [{ ...(await createKey('ES256')).jwk, alg: 'none' }] }),
      false,
    ],
  ])('--jwks with %s', async (_, made, isTaken) => {
    const file = `${workload.app.folder}/given.json`;
    await Bun.write(file, JSON.stringify(await made()));
    const { code } = await add('--subject', 'a', '--jwks', file);
    expect(code === 0).toBe(isTaken);
    expect((await listed()).length).toBe(isTaken ? 2 : 1);
  });

  test('what settings leave without effect is refused', async () => {
    const { issuer, keyId } = workload;
    const env = { ...ownEnv(), JWT_ISSUER: issuer.url };
    const refused = await keysCommand(env, ['rule', 'add', keyId, '--issuer', issuer.url, '--subject', 'a']);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('users');
    const args = ['rule', 'add', keyId, '--issuer', issuer.url, '--subject', 'a', '--audience', 'another'];
    expect((await keysCommand(env, args)).code).toBe(0);
    const keySet = { ...ownEnv(), JWT_JWKS_URL: issuer.jwksUrl };
    const always = await keysCommand(keySet, ['rule', 'add', keyId, '--issuer', issuer.url, '--subject', 'b']);
    expect(always.stderr).toContain('JWT_ISSUER');
  });
});

test('keys rule remove: a rule once, and then there is none', async () => {
  const remove = () => keysCommand(ownEnv(), ['rule', 'remove', workload.ruleId]);
  expect((await remove()).code).toBe(0);
  expect(await listed()).toEqual([]);
  expect((await remove()).code).toBe(1);
});

describe('keys rule test', () => {
  const NOT_CHECKED = ['issuer', 'header', 'times', 'bearer', 'signature', 'rule', 'key'].map((check) => ({
    check,
    verdict: 'not checked',
  }));

  const testOf = async (token: string) => {
    const ran = await keysCommand(ownEnv(), ['rule', 'test', '--json'], token);
    return { ...ran, tested: jsonLines(ran)[0] };
  };

  test('a token that would be let in: every check, and as whom', async () => {
    const token = await workload.token({ iat: Date.now() / 1000, exp: Date.now() / 1000 + 300 });
    const { code, tested, stdout, stderr } = await testOf(token);
    expect(code).toBe(0);
    expect(tested).toMatchObject({
      as: 'rule',
      rule: workload.ruleId,
      key: { id: workload.keyId, owner: 'acme', scopes: ['read'] },
    });
    expect(tested.checks.map((one: { verdict: string }) => one.verdict)).toEqual(
      Array(tested.checks.length).fill('ok'),
    );
    expect(tested.checks[0]).toMatchObject({ check: 'form', found: 'a JWT in compact form', help: '' });
    expect(stdout + stderr).not.toContain(token.split('.')[2] as string);
  });

  test.each([
    'zz',
    'ftp://tools.example',
    'tools.example/mcp',
    'https://tools.example/?a=1',
    'https://a@tools.example',
  ])('a --resource that names no server is a mistake: %s', async (resource) => {
    const { code, stdout, stderr } = await keysCommand({}, ['rule', 'test', '--resource', resource], '');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('--resource: expected an http or https URL without query, user or fragment');
  });

  test('one that has ended, for another subject: both are said', async () => {
    const { code, tested } = await testOf(await workload.token({ exp: 1, sub: 'another' }));
    const failing = tested.checks.filter((one: { verdict: string }) => one.verdict === 'no');
    expect(code).toBe(1);
    expect(failing.map((one: { check: string }) => one.check)).toEqual(['times', 'subject', 'rule']);
    expect(tested.as).toBeNull();
  });

  test('something that is no token, and a user token', async () => {
    expect((await testOf('sk_test_abc')).tested).toMatchObject({
      as: null,
      checks: [
        { check: 'form', verdict: 'no', found: 'something else', help: expect.stringContaining('Give') },
        ...NOT_CHECKED,
      ],
    });
    expect((await testOf(await workload.app.token('alice'))).tested).toMatchObject({
      as: 'user',
      checks: [{ check: 'form', verdict: 'ok' }, ...NOT_CHECKED],
    });
  });

  test('for a person: a line for each check, with what helps where one fails, and whose it would be', async () => {
    const lines = async (claims: Record<string, unknown>) => {
      const nowS = Date.now() / 1000;
      const token = await workload.token({ iat: nowS, exp: nowS + 300, ...claims });
      const { stdout, stderr } = await keysCommand(ownEnv(), ['rule', 'test'], token);
      return `${stdout}${stderr}`;
    };
    const good = await lines({});
    expect(good).toMatch(/^ok +signature /m);
    expect(good).toContain(`rule ${workload.ruleId} lets it act as key ${workload.keyId}`);
    const other = await lines({ sub: 'another' });
    expect(other).toMatch(
      new RegExp(`^no +subject of rule ${workload.ruleId} +found sub "another"; expected repo:acme/app:`, 'm'),
    );
    expect(other).toContain('it would be nobody');
  });

  test('one that fits no rule: the key is not checked, and of a long claim the beginning is shown', async () => {
    const { stdout, tested } = await testOf(await workload.token({ aud: 'another '.repeat(100) }));
    expect(stdout).toContain('another '.repeat(20));
    expect(stdout).not.toContain('another '.repeat(30));
    expect(tested.checks.slice(-2)).toMatchObject([
      { check: 'rule', verdict: 'no', help: expect.stringContaining('Add a rule') },
      { check: 'key', verdict: 'not checked' },
    ]);
  });
});

describe('keys doctor, and a start', () => {
  test('name the rules that let nobody in, and why', async () => {
    const { app, issuer, keyId, ruleId } = workload;
    await app.keys('revoke', keyId, '--yes');
    issuer.overrides.set('/jwks', () => new Response('', { status: 500 }));
    await executeAt(
      databaseOf(app),
      `INSERT INTO rules (id, key_id, hash, issuer, subject, audiences, claims, created_at_ms)
SELECT 'typed', key_id, 'typed', issuer, 'repo:acme/*', audiences, '["ref=main"]', 0 FROM rules
UNION ALL SELECT 'other', key_id, 'other', 'tokens.example', 'job', '[]', '[]', 0 FROM rules`,
    );
    const env = { ...ownEnv(), JWT_ISSUER: issuer.url };
    const { code, stdout } = await keysCommand(env, ['doctor']);
    expect(code).toBe(1);
    expect(stdout).toContain("the key set of tokens.example can't be fetched: the issuer is no https URL");
    expect(stdout).toContain(`typed of key ${keyId}: a token could fit rule ${ruleId} beside it`);
    for (const why of ['users', 'revoked', "can't be fetched"]) {
      expect(stdout.split('\n').some((line) => line.includes(ruleId) && line.includes(why))).toBe(true);
    }
    await using later = await createTestApp({ folder: app.folder, env: { ...env, JWT_SECRET: undefined } });
    expect(await later.log()).toContainEqual(expect.objectContaining({ event: 'rule without effect', rule: ruleId }));
  });
});

test('keys restore names the rules that were removed since the backup, and brings them back', async () => {
  const { app, ruleId } = workload;
  const env = ownEnv();
  const backup = `${app.folder}/backup.db`;
  await app.keys('backup', backup);
  await app.keys('rule', 'remove', ruleId);
  await app.close();
  const { code, stderr } = await keysCommand(env, ['restore', backup, '--yes']);
  expect([code, stderr]).toEqual([0, expect.stringContaining(`rule ${ruleId}`)]);
  expect(await listed()).toMatchObject([{ id: ruleId, subject: SUBJECT }]);
});
