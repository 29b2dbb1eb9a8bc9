// The README's first session, pasted as it stands, does what it says; its example tool, and those of src/tools/README.md,
// compile and respond.

import { expect, test } from 'bun:test';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { run } from '../support/command.ts';
import { exampleTool, filesToWrite, ROOT, readDocument } from '../support/documents.ts';
import { fill } from '../support/folder.ts';
import { startServer } from '../support/server-process.ts';
import { copyOfSource } from '../support/source.ts';
import { readResponse, TEST_SECRET } from '../support/test-app.ts';

const README = readDocument('README.md');
const TOOLS_README = readDocument('src/tools/README.md');
const TSC = join(ROOT, 'node_modules/.bin/tsc');

/** Pastes lines into a shell in `root`, where they find the server at `url`. Returns what they print, as JSON. */
async function paste(lines: string, root: string, url: string, env: Readonly<Record<string, string>> = {}) {
  expect(lines.match(/127\.0\.0\.1:3000/g)).toHaveLength(1);
  // `npx -y bun@1.4.4` fetches this very program; here it is the one that runs the tests.
  const npx = `#!/bin/sh\n[ "$1 $2" = "-y bun@1.4.4" ] || exit 1\nshift 2\nexec "${process.execPath}" "$@"\n`;
  const commands = fill(join(root, 'commands'), { npx });
  chmodSync(join(commands, 'npx'), 0o755);
  const { code, stdout } = await run(['sh'], {
    cwd: root,
    stdin: lines.replace('http://127.0.0.1:3000', url),
    env: { PATH: `${commands}:${process.env.PATH}`, ...env },
  });
  expect(code).toBe(0);
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** The one file that a document has its reader write. */
function fileToWrite({ text }: { readonly text: string }): string {
  const files = filesToWrite(text);
  expect(files).toHaveLength(1);
  return files[0] ?? '';
}

// A machine with nothing but Node.js may lack curl; the CI has it.
const WITHOUT_CURL = Bun.which('curl') === null;

test.skipIf(WITHOUT_CURL)(
  'the first session, pasted as it stands into a shell, does what it says',
  async () => {
    const root = copyOfSource();
    await using server = await startServer({ root, folder: root });
    const responses = await paste(README.codeBlocks('A first session', 'sh').join(''), root, server.url);
    expect(responses).toHaveLength(4);
    const [created, data, revoked, refused] = responses;
    expect(created).toMatchObject({ name: 'my first key', scopes: ['read'], key: expect.stringMatching(/^sk_test_/) });
    expect(created.expiresAt - Date.now()).toBeGreaterThan(29 * 86_400_000);
    expect(data).toMatchObject({ owner: 'alice', key: { id: created.id } });
    expect(revoked).toEqual({ success: true, message: 'API key revoked successfully' });
    expect(refused).toMatchObject({ status: 401, detail: 'Invalid or expired API key' });
    // What the README shows has the same fields. A line that is indented belongs to the one before.
    const shown = README.codeBlocks('A first session', 'json')
      .join('')
      .replace(/\n +/g, ' ')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const fieldsOf = (line: object) => Object.keys(line).sort();
    expect(shown.map(fieldsOf)).toEqual(responses.map(fieldsOf));
  },
  180_000,
);

/** A tool that uses `deps.keys`, with the actor as the document writes it. */
const endsAll = (actor: string) => `import { defineTool, ok, type ToolDeps, v } from 'mcp-key-server';

export default ({ guards, keys }: ToolDeps) =>
  defineTool(guards.userJwt, {
    name: 'end_all',
    title: 'End all keys',
    description: 'Revokes all keys.',
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({}),
    output: v.strictObject({ ended: v.number() }),
    async run(_input, { auth, requestId, clientAddress }) {
      const actor = ${actor};
      const listed = await keys.list(actor, null);
      if (!listed.ok) return listed;
      for (const { id } of listed.value.keys) await keys.revoke(actor, id);
      return ok({ ended: listed.value.keys.length });
    },
  });
`;

test('the example tools, put where the documents say, compile and respond', async () => {
  const tool = README.codeBlock('A tool of your own', 'ts');
  const limited = tool.replace(/(?<=defineTool\().*(?=, \{)/, TOOLS_README.codeBlock('Guards', 'ts').trim());
  expect(limited).toContain('guards.rateLimit');
  const [actor = ''] = /(?<=`)\{ userId: [^`]+(?=`)/.exec(TOOLS_README.section('The folder')) ?? [];
  const examples = ['count-lines.ts', 'shop-hours.ts', 'close-order.ts', 'close-order.test.ts', 'stock-levels.ts'];
  const root = fill(copyOfSource(), {
    [fileToWrite(README)]: tool,
    'tools/_limited.ts': limited, // it only has to compile
    'tools/_page.ts': `import type { Resource } from 'mcp-key-server';\n${TOOLS_README.codeBlock('The folder', 'ts')}`,
    ...Object.fromEntries(examples.map((name) => [`tools/${name}`, exampleTool(name)])),
    'tools/plan-visit.ts': TOOLS_README.codeBlock('Prompts', 'ts'),
    'tools/ends-all.ts': endsAll(actor),
  });

  // What it finds out is kept elsewhere than what `bun run check` keeps in node_modules: each would begin anew.
  const checked = await run([TSC, '--noEmit', '--tsBuildInfoFile', join(root, 'tsbuildinfo')], { cwd: root });
  expect(checked).toEqual({ code: 0, stdout: '', stderr: '' });
  fill(root, { 'tools/list-orders.test.ts': TOOLS_README.codeBlock('Tests', 'ts') });
  const tested = await run([process.execPath, 'test', '--timeout', '180000', './tools'], { cwd: root });
  expect({ code: tested.code, said: tested.stderr }).toEqual({ code: 0, said: expect.stringContaining(' 2 pass\n') });

  // A shop that nobody reaches: its port is closed.
  const env = { JWT_SECRET: TEST_SECRET, TOOL_SHOP_URL: 'http://127.0.0.1:1/hours' };
  await using server = await startServer({ root, folder: root, env });
  const alice = await userHeaders('alice');
  const create = async (...scopes: string[]) => {
    const { body } = await callOver(server.url, 'create_api_key', { name: 'n', scopes }, alice);
    return { 'x-api-key': body.key as string };
  };
  const reader = await create('read:orders');
  const all = await callOver(server.url, 'list_orders', {}, reader);
  expect(all.body).toMatchObject({ owner: 'alice', orders: [{ id: 'order-1' }, { id: 'order-2' }] });
  expect(all.headers.get('ratelimit')).toStartWith('"key";r=999;');
  const open = await callOver(server.url, 'list_orders', { status: 'open' }, reader);
  expect(open.body.orders).toMatchObject([{ id: 'order-1' }]);
  expect((await callOver(server.url, 'list_orders', { status: 'lost' }, reader)).status).toBe(400);
  expect((await callOver(server.url, 'list_orders', {}, await create('read'))).status).toBe(403);
  expect((await callOver(server.url, 'list_orders')).status).toBe(401);
  const { body: document } = await readResponse(await fetch(`${server.url}/openapi.json`));
  expect(document.paths).toHaveProperty('/tools/list_orders');
  const lines = await callOver(server.url, 'count_lines', { id: 'terms' }, reader);
  expect(lines.body.content).toEqual([{ type: 'text', text: '3 lines' }]);
  const lost = await callOver(server.url, 'count_lines', { id: 'lost' }, reader);
  expect(lost.body).toMatchObject({ status: 400, issues: [{ path: 'id', message: 'No such page' }] });
  const hours = await callOver(server.url, 'shop_hours', {}, reader);
  expect(hours.body).toMatchObject({ status: 502, code: 'shop_away', title: 'Bad Gateway' });
  expect((await callOver(server.url, 'end_all', {}, alice)).body).toEqual({ ended: 2 });
  expect((await callOver(server.url, 'list_orders', {}, reader)).status).toBe(401);
  if (WITHOUT_CURL) return;
  const pasted = await paste(README.codeBlock('A tool of your own', 'sh'), root, server.url, {
    JWT_SECRET: TEST_SECRET,
  });
  expect(pasted).toEqual([open.body]);
  expect(pasted).toEqual([JSON.parse(README.codeBlock('A tool of your own', 'json'))]);
}, 180_000); // a compiler, on a machine that is ten times slower, too
