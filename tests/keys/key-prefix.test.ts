// KEY_PREFIX: what new keys begin with, for scanners; keys of every prefix go on working, and stay out of the log.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { readDocument } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { callAll } from '../support/mcp.ts';
import { bearer, createTestApp, failureOf, type TestApp } from '../support/test-app.ts';

test.each([
  [{ KEY_PREFIX: 'acme' }, /^acme_test_[0-9a-f]{64}$/],
  [{ KEY_PREFIX: 'a1' }, /^a1_test_[0-9a-f]{64}$/],
  [{ NODE_ENV: 'production' }, /^sk_live_[0-9a-f]{64}$/],
  [{ KEY_PREFIX: '012345678901', NODE_ENV: 'production' }, /^012345678901_live_[0-9a-f]{64}$/],
])('row %#: new keys look as KEY_PREFIX says, and work', async (env, shape) => {
  await using app = await createTestApp({ env: { ...env, TRUST_PROXY: '1' } });
  const https = { 'x-forwarded-proto': 'https' };
  const authorization = `Bearer ${await app.token('alice')}`;
  const made = await app.call('create_api_key', { name: 'n', scopes: ['read'] }, { authorization, ...https });
  expect(made.body.key).toMatch(shape);
  expect((await app.call('get_data', {}, { 'x-api-key': made.body.key, ...https })).status).toBe(200);
});

test('keys outlive a change of the prefix, on servers with any setting', async () => {
  const first = await createTestApp({ store: 'embedded' });
  const old = (await first.createKey('alice')).key;
  await first.close();
  const acme = await createTestApp({ store: 'embedded', folder: first.folder, env: { KEY_PREFIX: 'acme' } });
  const own = (await acme.createKey('alice')).key;
  expect((await acme.useKey(old)).status).toBe(200);
  await acme.close();
  await using other = await createTestApp({ store: 'embedded', folder: first.folder });
  expect([(await other.useKey(old)).status, (await other.useKey(own)).status]).toEqual([200, 200]);
  expect((await other.useKey(own.replace('acme', 'sk'))).status).toBe(401);
});

test.each(['a', '0123456789012', 'Acme', 'ac_me', 'ac-me', 'äcme'])('%p stops the start', async (prefix) => {
  expect(await failureOf(createTestApp({ env: { KEY_PREFIX: prefix } }))).toContain(
    `KEY_PREFIX: expected 2-12 of a-z and 0-9, got "${prefix}"`,
  );
});

const HANDS_OUT = { OAUTH_REDIRECTS: 'loopback' };

/** What the log shows of an Origin that is refused. */
async function logged(app: TestApp, origin: string): Promise<unknown> {
  await fetch(`${app.url}/authorize`, { method: 'POST', headers: { origin }, body: new URLSearchParams() });
  return (await app.log()).findLast(({ event }) => event === 'request refused')?.origin;
}

test.each(['sk', 'acme', '012345678901'])('a key that begins with %s is cut out of the log', async (prefix) => {
  await using app = await createTestApp({ env: { ...HANDS_OUT, KEY_PREFIX: prefix } });
  const { key } = await app.createKey('alice');
  for (const text of [`key=${key}`, `"${key.slice(0, -20)}"`, `x${key}y`]) {
    expect(await logged(app, text)).toBeString();
  }
  expect(await app.logText()).not.toContain(key.slice(prefix.length + 6, prefix.length + 12));
});

test('names of tools are not taken for keys', async () => {
  await using app = await createTestApp({ env: HANDS_OUT });
  expect(await logged(app, 'run_test_suites get_live_facade')).toBe('run_test_suites get_live_facade');
});

/** The rule for gitleaks, as SECURITY.md has it. */
const scannerRule = () => readDocument('.github/SECURITY.md').codeBlock('When a secret gets out', 'toml');

/** 100 keys, in text, and 1,000 texts that are nearly keys. */
async function keysAndNearMisses() {
  await using app = await createTestApp({ env: { KEY_PREFIX: 'acme' } });
  const inputs = Array(100).fill({ name: 'n', scopes: [] });
  const made = await callAll(app, 'create_api_key', inputs, await bearer(app, 'alice'));
  const keys: string[] = made.map(({ structuredContent: { key } }, n) =>
    n % 2 === 0 ? key : key.replace('_test_', '_live_'),
  );
  const around = [(key: string) => key, (key: string) => `"${key}"`, (key: string) => `KEY=${key}\n`];
  const text = keys.map((key, n) => around[n % around.length]?.(key)).join(' ');
  const spoilt: ((key: string) => string)[] = [
    (key) => key.slice(0, -1),
    (key) => `${key}0`,
    (key) => `x${key}`,
    (key) => key.replace('acme', 'sk'),
    (key) => key.replace('acme', 'acne'),
    (key) => key.replace(/_(live|test)_/, '_prod_'),
    (key) => key.replace(/_(live|test)_/, '-$1-'),
    (key) => `${key.slice(0, 40)}g${key.slice(41)}`,
    (key) => key.toUpperCase(),
    (key) => `${key.slice(0, 30)} ${key.slice(30)}`,
  ];
  const misses = keys.flatMap((key) => spoilt.map((spoil) => spoil(key)));
  expect(misses).toHaveLength(1000);
  return { keys, text, misses: misses.join('\n') };
}

test('the pattern for scanners finds each of 100 keys, and none of 1,000 near misses', async () => {
  const { keys, text, misses } = await keysAndNearMisses();
  const pattern = new RegExp(/regex = '''(.*)'''/.exec(scannerRule())?.[1] ?? 'no pattern', 'g'); // Go's syntax is the same
  expect([...(text.match(pattern) ?? [])]).toEqual(keys);
  expect(misses.match(pattern)).toBeNull();
});

test.skipIf(Bun.which('gitleaks') === null)(
  'so does gitleaks itself with the rule',
  async () => {
    const { keys, text, misses } = await keysAndNearMisses();
    const folder = temporaryFolder();
    const config = join(folder, 'rule.toml');
    const report = join(folder, 'report.json');
    const tree = join(folder, 'tree');
    await Bun.write(config, scannerRule());
    await Bun.write(join(tree, 'keys.env'), text);
    await Bun.write(join(tree, 'near-misses.env'), misses);
    const options = ['--config', config, '--report-format', 'json', '--report-path', report, '--exit-code', '0'];
    const { exitCode, stderr } = Bun.spawnSync(['gitleaks', 'dir', ...options, tree]);
    expect({ exitCode, stderr: String(stderr) }).toMatchObject({ exitCode: 0 });
    const findings: { RuleID: string; Secret: string; File: string }[] = await Bun.file(report).json();
    expect(findings.map(({ Secret }) => Secret).sort()).toEqual([...keys].sort());
    expect(findings.filter(({ RuleID, File }) => RuleID !== 'acme-api-key' || !File.endsWith('keys.env'))).toEqual([]);
  },
  180_000,
);
