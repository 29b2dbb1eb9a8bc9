// A program without a browser, as the documents have it: with `curl`, and with the command.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { callOver, postJson, userHeaders } from '../support/client.ts';
import { readDocument } from '../support/documents.ts';
import { startServer } from '../support/server-process.ts';
import { shared } from '../support/shared.ts';
import { TEST_SECRET } from '../support/test-app.ts';

setDefaultTimeout(180_000); // who asks waits for five seconds at least

const server = await shared(startServer({ env: { OAUTH_DEVICE: '1', JWT_SECRET: TEST_SECRET } }));

const CURL = /```sh\n(ASKED=.*?)```/s.exec(readDocument('src/mcp/README.md').text)?.[1] ?? '';
const COMMAND = [process.execPath, 'src/commands/keys.ts', 'create', '--ask'];

/** Runs it, and does on the page's behalf what a person does once the code is shown. */
async function asked(argv: readonly string[], approve: boolean) {
  const program = Bun.spawn([...argv], { env: { ...process.env, URL: server.url }, stdout: 'pipe', stderr: 'pipe' });
  const stdout = new Response(program.stdout).text();
  const decoder = new TextDecoder();
  let said = '';
  let userCode: string | undefined;
  for await (const chunk of program.stderr) {
    said += decoder.decode(chunk, { stream: true });
    if (userCode !== undefined) continue;
    userCode = /asks for ([B-Z]{4}-[B-Z]{4})/.exec(said)?.[1];
    if (userCode === undefined) continue;
    expect(said).toContain(`Open ${server.url}/keys#ask=${userCode}`);
    const decision = { userCode, approve, ...(approve && { name: 'agent', scopes: ['read'], expiresInDays: 1 }) };
    const response = await postJson(`${server.url}/device/decision`, decision, await userHeaders('alice'));
    expect(response.status).toBe(200);
  }
  return { code: await program.exited, stdout: (await stdout).trim(), said };
}

const isGood = async (key: string) => (await callOver(server.url, 'get_data', {}, { 'x-api-key': key })).status === 200;

test.concurrent.skipIf(Bun.which('curl') === null)('the lines with curl are five, and get the key', async () => {
  expect(CURL.trim().split('\n')).toHaveLength(5);
  const { stdout } = await asked(['sh', '-c', `${CURL}\necho "$API_KEY"`], true);
  expect(await isGood(stdout)).toBe(true);
});

test.concurrent('the command prints the key alone', async () => {
  const { code, stdout, said } = await asked(
    [...COMMAND, `${server.url}/mcp`, '--name', 'ci', '--scope', 'read'],
    true,
  );
  expect([code, stdout.split('\n')]).toEqual([0, [expect.stringMatching(/^sk_test_[0-9a-f]{64}$/)]]);
  expect(await isGood(stdout)).toBe(true);
  expect(said).not.toContain(stdout);
});

test.concurrent('who is refused gets a line, and no key', async () => {
  const { code, stdout, said } = await asked([...COMMAND, server.url], false);
  expect([code, stdout]).toEqual([1, '']);
  expect(said).toContain('the person has refused');
});

test('a server that takes no requests is a line', async () => {
  await using other = await startServer({ env: { JWT_SECRET: TEST_SECRET } });
  const program = Bun.spawn([...COMMAND, other.url], { stdout: 'pipe', stderr: 'pipe' });
  expect(await new Response(program.stderr).text()).toBe(
    `keys: ${other.url} takes no requests for keys: it responded 404, as without OAUTH_DEVICE=1\n`,
  );
  expect(await program.exited).toBe(1);
});
