// `bun run dev`: the server as it is now, whatever happens to the files.

import { expect, test } from 'bun:test';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scripts } from '../../package.json';
import { callOver } from '../support/client.ts';
import { startServer } from '../support/server-process.ts';
import { copyOfSource } from '../support/source.ts';
import { waitFor } from '../support/wait-for.ts';

const hello = (text: string) => `
import { defineTool, ok, v } from 'mcp-key-server';
export default () => defineTool(() => ok({}), { name: 'hello', title: '', description: '', annotations: {} as never,
  input: v.strictObject({}), run: () => ok({ content: [{ type: 'text', text: '${text}' }] }) });`;

test('it starts again when a tool appears, changes, breaks and is mended, and when the source changes', async () => {
  const root = copyOfSource();
  rmSync(join(root, 'tools'), { recursive: true });
  expect(scripts.dev).toBe('exec bun src/commands/dev.ts');
  const command = [process.execPath, join(root, 'src/commands/dev.ts')];
  await using dev = await startServer({ folder: root, command });
  const said = async () => {
    const url = [...dev.stderr().matchAll(/listening on (\S+)/g)].at(-1)?.[1] ?? '';
    const response = await callOver(url, 'hello').catch(() => null); // the one before may have stopped
    return response?.body.content?.[0].text;
  };
  const tool = join(root, 'tools/hello.ts');
  mkdirSync(join(root, 'tools'));
  writeFileSync(tool, hello('one'));
  await waitFor(async () => (await said()) === 'one');
  writeFileSync(tool, hello('two'));
  await waitFor(async () => (await said()) === 'two');
  writeFileSync(tool, 'export default (');
  await waitFor(() => dev.stderr().includes('mcp-key-server: tools/hello.ts:'));
  writeFileSync(tool, hello('three'));
  await waitFor(async () => (await said()) === 'three');
  const before = dev.stderr().match(/listening on/g)?.length ?? 0;
  writeFileSync(join(root, 'src/more.ts'), '');
  await waitFor(() => (dev.stderr().match(/listening on/g)?.length ?? 0) > before);
  expect(await dev.stop()).toBe(0); // with the server: its stdout has ended too
}, 60_000);
