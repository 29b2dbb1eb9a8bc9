// `keys create --ask` before servers that answer wrongly; and commands that wait, as the first process of a container.

import { afterAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { keysCommand } from '../../support/keys-command.ts';
import { labelled } from '../../support/labels.ts';
import { startStore } from '../../support/store-mode.ts';
import { waitFor } from '../../support/wait-for.ts';

const KEYS = join(import.meta.dir, '../../../src/commands/keys.ts');
const KEY = `sk_test_${'a'.repeat(64)}`;
const ID = 'b'.repeat(32);

const ASKED = {
  device_code: 'code',
  user_code: 'ABCD-EFGH',
  verification_uri_complete: 'https://keys.example/keys#device=ABCD-EFGH',
  expires_in: 600,
  interval: 0.01,
};

let [asked, answered]: object[] = [ASKED, {}];
let asks = 0;
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch({ url }) {
    asks += 1;
    return Response.json(url.endsWith('/device_authorization') ? asked : answered);
  },
});
afterAll(() => server.stop(true));
const URL_ = `http://127.0.0.1:${server.port}`;
const ask = () => keysCommand({}, ['create', '--ask', URL_]);

test('a key is printed', async () => {
  [asked, answered] = [ASKED, { access_token: KEY, key_id: ID }];
  expect(await ask()).toMatchObject({ code: 0, stdout: `${KEY}\n`, stderr: expect.stringContaining(`created ${ID}`) });
});

test.each([
  ['a word', { access_token: 'rm -rf /' }],
  ['lines', { access_token: `${KEY}\nexport PATH=.` }],
  ['a terminal’s commands', { access_token: '\x1b]0;x\x07' }],
  ['a key of another length', { access_token: `${KEY}0` }],
  ['an id that is none', { access_token: KEY, key_id: '\x1b[2J' }],
])('%s in place of a key is not printed', async (_, answer) => {
  [asked, answered] = [{ ...ASKED, expires_in: 1 }, answer];
  const { code, stdout, stderr } = await ask();
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).not.toMatch(/rm -rf|\x1b|PATH/);
});

test.each(
  labelled([
    { interval: 0 },
    { interval: -1 },
    { interval: 1e9 },
    { expires_in: 0 },
    { expires_in: 1e12 },
    { verification_uri_complete: 'open this' },
    { verification_uri_complete: 'javascript:alert(1)' },
    { verification_uri_complete: 'file:///etc/passwd' },
    { user_code: 'x'.repeat(3000) },
    { device_code: 'x'.repeat(70_000) },
  ]),
)('%s ends it before anything is shown', async (_label, wrong) => {
  [asked, answered] = [{ ...ASKED, ...wrong }, { access_token: KEY }];
  const { code, stdout, stderr } = await ask();
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toContain('takes no requests for keys');
});

const cannotUnshare = Bun.spawnSync(['unshare', '--pid', '--fork', 'true']).exitCode !== 0;

describe.skipIf(cannotUnshare)('as the first process of a container', () => {
  test.each([
    ['create --ask', 'SIGTERM', 143],
    ['create --ask', 'SIGINT', 130],
    ['events --follow', 'SIGTERM', 143],
    ['events --follow', 'SIGINT', 130],
  ] as const)('%s ends at once at %s', async (verb, signal, code) => {
    [asked, answered] = [ASKED, { error: 'authorization_pending' }];
    await using store = await startStore('embedded');
    const words = verb === 'create --ask' ? [...verb.split(' '), URL_] : verb.split(' ');
    const before = asks;
    const process_ = Bun.spawn(['unshare', '--pid', '--fork', process.execPath, '--no-env-file', KEYS, ...words], {
      env: store.env(),
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    if (verb === 'create --ask') await waitFor(() => asks > before + 1);
    else expect((await process_.stdout.getReader().read()).done).toBe(false); // the table's head: it follows from now on
    const [child] = (await Bun.$`ps -o pid= --ppid ${process_.pid}`.text()).trim().split(/\s+/);
    process.kill(Number(child), signal);
    expect(await process_.exited).toBe(code);
  });
});
