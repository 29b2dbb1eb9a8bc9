// `bun run dev` and `mcp-key-server dev`: the server as it is now, whatever happens to the files.

import { expect, test } from 'bun:test';
import { appendFileSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scripts } from '../../package.json';
import { callOver, userHeaders, userOn } from '../support/client.ts';
import { run } from '../support/command.ts';
import { rows } from '../support/everything.ts';
import { diskFolder, fill, temporaryFolder } from '../support/folder.ts';
import { jsonLines, keysProcess } from '../support/keys-command.ts';
import { executable } from '../support/packed.ts';
import { commandOf, type ServerProcess, startServer } from '../support/server-process.ts';
import { copyOfSource } from '../support/source.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const hello = (text: string) => `
import { defineTool, ok, v } from 'mcp-key-server';
export default () => defineTool(() => ok({}), { name: 'hello', title: '', description: '', annotations: {} as never,
  input: v.strictObject({}), run: () => ok({ content: [{ type: 'text', text: '${text}' }] }) });`;

const SCRIPT = [process.execPath, join(import.meta.dir, '../../src/commands/dev.ts')];
const CLI = [process.execPath, join(import.meta.dir, '../../src/cli.ts')];

/** How many mistakes it has found after the start, and what the tool says now. */
const asSeen = (dev: ServerProcess) => ({
  mistakes: () => dev.stderr().match(/the tools stay as they were/g)?.length ?? 0,
  said: async () => (await callOver(dev.url, 'hello')).body.content?.[0].text,
});

test('it takes over a tool that appears, changes, breaks and is mended, and starts again when the source changes', async () => {
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
  fill(root, { 'tools/hello.ts': hello('one') });
  await waitFor(async () => (await said()) === 'one');
  writeFileSync(tool, hello('two'));
  await waitFor(async () => (await said()) === 'two');
  writeFileSync(tool, 'export default (');
  await waitFor(() => dev.stderr().includes('mcp-key-server: tools/hello.ts:'));
  expect(await said()).toBe('two'); // as it was
  writeFileSync(tool, hello('three'));
  await waitFor(async () => (await said()) === 'three');
  const starts = () => dev.stderr().match(/listening on/g)?.length ?? 0;
  expect(starts()).toBe(1); // no restart
  writeFileSync(join(root, 'src/more.ts'), '');
  await waitFor(() => starts() > 1);
  expect(await dev.stop()).toBe(0); // with the server: its stdout has ended too
}, 180_000);

test.each([
  ['--port 8080', { code: 2, stdout: '', stderr: 'mcp-key-server: there is no option --port\nusage: dev\n' }],
  ['--help', { code: 0, stdout: expect.stringMatching(/^usage: dev\n/), stderr: '' }],
])('with %s it serves nothing, and says why', async (args, said) => {
  expect(await run([...SCRIPT, ...args.split(' ')], { cwd: temporaryFolder() })).toEqual(said);
});

test('SIGHUP, too, ends it with its server', async () => {
  await using dev = await startServer({ folder: diskFolder(), command: SCRIPT });
  dev.signal('SIGHUP');
  expect(await dev.exited).toBe(0); // its stdout has ended too
});

test('it starts with the tools that are there', async () => {
  const folder = fill(diskFolder(), { 'tools/hello.ts': hello('one') });
  await using dev = await startServer({ folder, command: [...CLI, 'dev'] });
  await waitFor(() => dev.stdout().includes('"event":"started"'));
  expect(dev.stdout()).toContain('"tools":{"tools/hello.ts":["hello"]}');
  expect(dev.stderr()).toContain('hello (tools/hello.ts)');
  expect(await dev.stop()).toBe(0);
  expect(dev.stdout()).not.toContain('"tools reloaded"');
});

test('a call of a tool as it was before a save ends, and counts, though the server is stopped meanwhile', async () => {
  const begun = "await Bun.write('begun', ''); await Bun.sleep(2000); // longer than a stop without requests";
  const slow = hello('one')
    .replace('() => defineTool(() => ok({})', '({ guards }) => defineTool(guards.apiKey')
    .replace('run: () => ok(', `run: async () => { ${begun}\n return ok(`)
    .replace(/\) \}\);$/, '); } });');
  const folder = fill(diskFolder(), { 'tools/hello.ts': slow });
  await using dev = await startServer({ folder, command: [...CLI, 'dev'], env: { JWT_SECRET: TEST_SECRET } });
  const { id, key } = (await (await userOn(dev)).create()).body;
  const calling = callOver(dev.url, 'hello', {}, { 'x-api-key': key });
  await waitFor(() => existsSync(join(folder, 'begun')));
  writeFileSync(join(folder, 'tools/hello.ts'), hello('two'));
  await waitFor(() => dev.stdout().includes('"tools reloaded"'));
  expect(await dev.stop()).toBe(0);
  expect((await calling).body.content?.[0].text).toBe('one');
  const usage = ['usage', '--by', 'key', '--json'];
  const used = await keysProcess({ DATABASE_URL: `file:${join(folder, 'data/keys.db')}` }, usage);
  expect(jsonLines(used)).toMatchObject([{ keyId: id, units: 1 }]);
});

const COMMANDS: readonly (readonly [name: string, program: () => Promise<readonly string[]>])[] = [
  ['a command', async () => CLI],
  ['a command of the executable', async () => [await executable()]],
  ['an argument of start:deno', async () => commandOf('deno')],
];

test.each(rows(COMMANDS, 1))(
  'as %s: a save mends a mistake at the start, in what tools share, and in how a tool is made',
  async (_, program) => {
    const folder = diskFolder(); // Deno needs more rights for one on the memory disk
    const tools = join(folder, 'tools');
    fill(tools, { 'hello.ts': 'export default (' });
    const command = [...(await program()), 'dev'];
    await using dev = await startServer({ folder, command });
    const { mistakes, said } = asSeen(dev);
    expect(mistakes()).toBe(1);
    expect(dev.stderr()).toMatch(/mcp-key-server: tools\/hello\.ts:1:\d+: /);
    await waitFor(() => dev.stdout().includes('"tools not reloaded"'));
    writeFileSync(join(tools, '_text.ts'), "export const text = 'shared';");
    const sharing = hello('x').replace("'x'", 'text').replace('import', "import { text } from './_text.ts';\nimport");
    writeFileSync(join(tools, 'hello.ts'), sharing);
    await waitFor(async () => (await said()) === 'shared');
    writeFileSync(join(tools, '_text.ts'), "export const text = 'changed';");
    await waitFor(async () => (await said()) === 'changed');
    writeFileSync(join(tools, '_text.cjs'), "exports.text = 'common';");
    writeFileSync(join(tools, 'hello.ts'), sharing.replace('./_text.ts', './_text.cjs'));
    await waitFor(async () => (await said()) === 'common');
    writeFileSync(join(tools, '_text.cjs'), "exports.text = 'changed';");
    await waitFor(async () => (await said()) === 'changed');
    writeFileSync(join(tools, 'hello.ts'), "export default () => { throw new Error('in the making'); };");
    await waitFor(() => /tools\/hello\.ts:1:\d+: in the making/.test(dev.stderr()));
    expect(await said()).toBe('changed');
    rmSync(join(tools, 'hello.ts'));
    await waitFor(async () => (await said()) === undefined);
    expect(await dev.stop()).toBe(0);
  },
  180_000,
);

test.each(rows(COMMANDS, 1))(
  'as %s: a tool that ends the server is named, and a stop while one is loaded is a stop',
  async (_, program) => {
    const command = [...(await program()), 'dev'];
    const ending = hello('x').replace("ok({ content: [{ type: 'text', text: 'x' }] })", 'process.exit(0)');
    await using ended = await startServer({ folder: fill(diskFolder(), { 'tools/hello.ts': ending }), command });
    await callOver(ended.url, 'hello').catch(() => null);
    expect(await ended.exited).toBe(1);
    expect(ended.stderr()).toEndWith(
      'mcp-key-server: tools: expected them to leave the server running, but one has ended it; called last: hello\n',
    );
    const folder = fill(diskFolder(), { 'tools/hello.ts': hello('one') });
    await using stopped = await startServer({ folder, command });
    writeFileSync(join(folder, 'tools/hello.ts'), "console.error('it waits');\nawait new Promise(() => {});");
    await waitFor(() => stopped.stderr().includes('it waits'));
    stopped.signal('SIGINT');
    expect(await stopped.exited).toBe(0);
    expect(stopped.stderr()).not.toContain('mcp-key-server: ');
  },
  180_000,
);

/** What may be wrong with a module that tools share. Null: it is not there. */
const WRONG = [
  'export const text = (',
  "throw new Error('no')",
  "export const other = ''",
  "import './_none.ts';",
  null,
];

/** How a tool may name a module that it imports: on Deno only with the ending of its file. */
const NAMED = COMMANDS.flatMap(([name, program]) =>
  (name.includes('deno') ? ['.ts'] : ['', '.ts']).map((ending) => [name, ending, program] as const),
);

test.each(rows(NAMED, 1))(
  'as %s: a save mends any mistake in what tools share as ./_text%s, and a folder may be replaced',
  async (_, ending, program) => {
    const folder = diskFolder();
    const tools = join(folder, 'tools');
    const shared = join(tools, '_text.ts');
    const tool = hello('x')
      .replace("'x'", 'text')
      .replace('import', `import { text } from './_text${ending}';\nimport`);
    fill(tools, { 'hello.ts': tool, '_text.ts': "export const text = 'first';" });
    await using dev = await startServer({ folder, command: [...(await program()), 'dev'] });
    const { mistakes, said } = asSeen(dev);
    for (const [index, wrong] of WRONG.entries()) {
      const before = mistakes();
      if (wrong === null) rmSync(shared);
      else writeFileSync(shared, wrong);
      await waitFor(() => mistakes() > before);
      writeFileSync(shared, `export const text = 'mended ${index}';`);
      await waitFor(async () => (await said()) === `mended ${index}`);
    }
    expect(dev.stderr()).not.toContain('?'); // what a module is called that is read again
    rmSync(tools, { recursive: true });
    await waitFor(async () => (await said()) === undefined);
    fill(tools, { 'hello.ts': hello('again') });
    await waitFor(async () => (await said()) === 'again');
    writeFileSync(join(tools, 'hello.ts'), hello('changed'));
    await waitFor(async () => (await said()) === 'changed');
    expect(await dev.stop()).toBe(0);
  },
  180_000,
);

test.each(rows(COMMANDS, 1))(
  'as %s: a save is taken over where the folder is a link, which may be set to another',
  async (_, program) => {
    const folder = diskFolder();
    const link = join(folder, 'tools');
    const pointTo = (target: string) => {
      rmSync(link, { force: true });
      symlinkSync(target, link);
    };
    fill(join(folder, 'first'), { 'hello.ts': hello('one') });
    fill(join(folder, 'second'), { 'hello.ts': hello('three') });
    pointTo('first');
    await using dev = await startServer({ folder, command: [...(await program()), 'dev'] });
    const { said } = asSeen(dev);
    expect(await said()).toBe('one');
    writeFileSync(join(folder, 'first/hello.ts'), hello('two'));
    await waitFor(async () => (await said()) === 'two');
    pointTo('second');
    await waitFor(async () => (await said()) === 'three');
    writeFileSync(join(folder, 'second/hello.ts'), hello('four'));
    await waitFor(async () => (await said()) === 'four');
    expect(await dev.stop()).toBe(0);
  },
  180_000,
);

test.each(rows(COMMANDS, 1))(
  'as %s: it reloads no tools because it writes its own files in their folder',
  async (_, program) => {
    const folder = fill(diskFolder(), { 'hello.ts': hello('one'), 'dev.log': '' });
    const env = { TOOLS_DIR: '.', DATABASE_URL: 'file:./data/hello' };
    const log = join(folder, 'dev.log');
    const onStdout = (chunk: string) => appendFileSync(log, chunk);
    await using dev = await startServer({ folder, command: [...(await program()), 'dev'], env, onStdout });
    const secret = readFileSync(join(folder, 'data/jwt-secret'), 'utf8').trim();
    const alice = await userHeaders('alice', secret);
    for (let made = 0; made < 5; made += 1) {
      const created = await callOver(dev.url, 'create_api_key', { name: 'n', scopes: [] }, alice);
      expect(created.status).toBe(200);
    }
    writeFileSync(join(folder, 'hello.ts'), hello('two'));
    await waitFor(async () => (await asSeen(dev).said()) === 'two');
    expect(await dev.stop()).toBe(0);
    expect(readFileSync(log, 'utf8').match(/"tools reloaded"/g)?.length).toBeLessThanOrEqual(2);
  },
  180_000,
);

test.each(rows(COMMANDS, 1))(
  'as %s: it names TOOLS_DIR though there is no place for the folder',
  async (_, program) => {
    const env = { TOOLS_DIR: './none/tools' };
    await using dev = await startServer({ folder: diskFolder(), command: [...(await program()), 'dev'], env });
    expect(dev.stderr()).toContain('mcp-key-server: TOOLS_DIR: expected a folder');
    expect(await dev.stop()).toBe(0);
  },
);
