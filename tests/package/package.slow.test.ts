// The package, packed as the documents say into a folder with tools, without a package.json, and from there installed into a
// project of its own: what it has, its types, and that it runs.

import { describe, expect, test } from 'bun:test';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dependencies, devDependencies, version } from '../../package.json';
import * as index from '../../src/start/package/index.ts';
import * as testing from '../../src/start/package/testing.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { errorsIn, output, run } from '../support/command.ts';
import { exampleTool, ROOT, readDocument } from '../support/documents.ts';
import { inRest } from '../support/everything.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { cloneToPack } from '../support/packed.ts';
import { productionEnv } from '../support/production.ts';
import { denoPath, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { saying, toolFile } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

const TOOLS_README = readDocument('src/tools/README.md');
const TSC = join(ROOT, 'node_modules/.bin/tsc');

const PAGE = `import type { Resource } from 'mcp-key-server';\n${TOOLS_README.codeBlock('The folder', 'ts')}`;
const SERVER = TOOLS_README.codeBlock('As a package', 'ts')
  .replace("';\n\n", "';\nimport { resources } from './page.ts';\n\n")
  .replace('[listOrders] }', '[listOrders], resources }');

const EARLIER = ['mcp-key-server', 'old.js', 'types/old.d.ts'];
const TYPED = TOOLS_README.codeBlock('Tests', 'sh');
const clone = cloneToPack(EARLIER);
/** A folder of tools outside the repository, with a test, and what the document types for it. */
const toolsFolder = fill(diskFolder(), {
  'list-orders.ts': readDocument('README.md').codeBlock('A tool of your own', 'ts'),
  'list-orders.test.ts': TOOLS_README.codeBlock('Tests', 'ts'),
  'tsconfig.json': TOOLS_README.codeBlock('Tests', 'json'),
});
await output(['sh', '-e', '-c', TYPED.replaceAll('../my-tools', toolsFolder)], {
  cwd: clone,
  env: productionEnv(toolsFolder),
});
const tarball = join(toolsFolder, `mcp-key-server-${version}.tgz`);
/** A project with a tool, a page, a test and a program. Nothing but the package is installed. */
const project = projectFolder();
await output([process.execPath, 'install'], { cwd: project, env: productionEnv(project) });

function projectFolder(): string {
  const strict = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    target: 'ESNext',
    module: 'NodeNext',
    allowImportingTsExtensions: true,
    noEmit: true,
    types: [],
  };
  return fill(diskFolder(), {
    'package.json': JSON.stringify({ type: 'module', dependencies: { 'mcp-key-server': `file:${tarball}` } }),
    'tsconfig.json': JSON.stringify({ compilerOptions: strict }),
    'server.ts': SERVER,
    'page.ts': PAGE,
    'tools/list-orders.ts': readDocument('README.md').codeBlock('A tool of your own', 'ts'),
    'tools/list-orders.test.ts': TOOLS_README.codeBlock('Tests', 'ts'),
    'bun-test.d.ts':
      "declare module 'bun:test' {\n  export function test(name: string, run: () => Promise<void>): void;\n  export function expect(value: unknown): { toEqual(other: unknown): void; toBe(other: unknown): void };\n}\n",
  });
}

test('it has the built files alone, and fits in 2.5 MB', async () => {
  const root = join(project, 'node_modules/mcp-key-server');
  expect(
    readdirSync(root)
      .filter((name) => name !== '.bun-tag')
      .sort(),
  ).toEqual(['LICENSE', 'README.md', 'dist', 'package.json']);
  const listed = (await output(['tar', '-tzf', tarball], { cwd: project })).trim().split('\n');
  const built = listed.filter((path) => path.startsWith('package/dist/'));
  expect(built.filter((path) => !/\.(js|cjs|cjs\.jsc|d\.ts)$/.test(path))).toEqual([]);
  expect(built.length).toBeGreaterThan(20);
  expect(statSync(tarball).size).toBeLessThan(2_500_000);
});

test('its build leaves the executable of an earlier one alone, and nothing else', () => {
  const left = [...EARLIER, 'cli.js'].map((file) => existsSync(join(clone, 'dist', file)));
  expect(left).toEqual([true, false, false, true]);
});

test('it brings the four run-time packages of the server, and what these need', () => {
  const { dependencies: needed } = JSON.parse(
    readFileSync(join(project, 'node_modules/mcp-key-server/package.json'), 'utf8'),
  );
  expect(needed).toEqual(dependencies);
  expect(readdirSync(join(project, 'node_modules'))).not.toContain('@modelcontextprotocol');
});

test('it exports what the source does', async () => {
  const namesOf = async (path: string) => {
    const program = `console.log(JSON.stringify(Object.keys(await import('${path}')).sort()))`;
    return JSON.parse(await output([process.execPath, '-e', program], { cwd: project }));
  };
  expect(await namesOf('mcp-key-server')).toEqual(Object.keys(index).sort());
  expect(await namesOf('mcp-key-server/testing')).toEqual(Object.keys(testing));
  expect(await namesOf('mcp-key-server/verifier')).toEqual(['createVerifier']);
});

inRest(test)(
  'a project with the types of Node.js, and none of browsers, checks against its types',
  async () => {
    const node = { lib: ['ESNext'], typeRoots: [join(ROOT, 'node_modules/@types')], types: ['node'] };
    const config = {
      extends: './tsconfig.json',
      compilerOptions: node,
      include: ['server.ts', 'tools', 'bun-test.d.ts'],
    };
    writeFileSync(join(project, 'tsconfig.node.json'), JSON.stringify(config));
    const { stdout, stderr } = await run([TSC, '-p', 'tsconfig.node.json'], { cwd: project });
    expect([errorsIn(stdout), stderr]).toEqual([[], '']);
  },
  180_000,
);

test('a project checks against its types: tsc, strict, with no other package, and deno check', async () => {
  const deno = [denoPath(), 'check', '--node-modules-dir=manual', 'server.ts'];
  expect((await run(deno, { cwd: project })).code).toBe(0);
  writeFileSync(join(project, 'wrong.ts'), "import { start } from 'mcp-key-server';\nawait start({ tools: [1] });\n");
  const { stdout, stderr } = await run([TSC, '-p', '.'], { cwd: project });
  expect([errorsIn(stdout), stderr]).toEqual([[expect.stringMatching(/^wrong\.ts\(2,23\): error TS2322/)], '']);
}, 180_000); // compilers, on whatever else runs

test.each([
  ['a project', project],
  ['the folder of tools', toolsFolder],
])(
  'the test of %s runs against an app of the package',
  async (_, cwd) => {
    const command = [process.execPath, 'test', '--timeout', '180000'];
    const { code, stderr } = await run(command, { cwd, env: productionEnv(cwd) });
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining(' 1 pass\n') });
  },
  180_000,
);

test('in the folder of tools the compiler knows the package, and says where a tool does not fit', async () => {
  const wrong = "import { defineTool } from 'mcp-key-server';\n\nexport default () => defineTool(1);\n";
  fill(toolsFolder, { '_wrong.ts': wrong });
  const tsc = [process.execPath, 'x', 'tsc'];
  const { stdout, stderr } = await run(tsc, { cwd: toolsFolder, env: productionEnv(toolsFolder) });
  expect([errorsIn(stdout), stderr]).toEqual([[expect.stringMatching(/^_wrong\.ts\(3,/)], '']);
}, 240_000);

test('the versions of what is added in the folder of tools are those of the repository', () => {
  for (const name of ['bun-types', 'typescript'] as const) expect(TYPED).toContain(`${name}@${devDependencies[name]}`);
});

describe.each([
  ['bun', [process.execPath, 'server.ts'], 'mcp-key-server'],
  [
    'deno',
    [denoPath(), 'run', '--node-modules-dir=manual', '--allow-all', 'server.ts'],
    'deno run --allow-all npm:mcp-key-server',
  ],
])('on %s', (_, command, called) => {
  test('a program starts it with a tool and a page of its own, and Ctrl-C ends it', async () => {
    await using server = await startServer({
      command,
      folder: project,
      env: { JWT_SECRET: TEST_SECRET, DATABASE_URL: `file:${diskFolder()}/keys.db` },
    });
    const created = await callOver(
      server.url,
      'create_api_key',
      { name: 'n', scopes: ['read:orders'] },
      await userHeaders('alice'),
    );
    const { body } = await callOver(server.url, 'list_orders', {}, { 'x-api-key': created.body.key });
    expect(body).toMatchObject({ owner: 'alice', orders: [{ id: 'order-1' }, { id: 'order-2' }] });
    expect(await (await fetch(`${server.url}/widgets/preview`)).text()).toContain('api-key-created');
    expect(server.stderr()).toContain(`${called} token --sub alice`);
    server.signal('SIGINT');
    expect(await server.exited).toBe(0);
    expect(server.stdout()).toContain('"event":"stopped"');
  });
});

test('a program with a listener of its own makes the app alone', async () => {
  for (const name of ['count-lines.ts', 'program.ts']) writeFileSync(join(project, name), exampleTool(name));
  const env = { DATABASE_URL: `file:${diskFolder()}/keys.db` };
  const printed = (await output([process.execPath, 'program.ts'], { cwd: project, env })).trim().split('\n');
  expect(printed.filter((line) => !line.startsWith('{'))).toEqual(['401']);
  expect(printed.filter((line) => line.includes('"No API key provided"'))).toHaveLength(1);
});

test('its command serves the tools folder, and mints a token that it takes', async () => {
  const command = [process.execPath, join(project, 'node_modules/.bin/mcp-key-server')];
  await using server = await startServer({ command, folder: project });
  const token = await output([...command, 'token', '--sub', 'alice'], { cwd: project });
  const headers = { authorization: `Bearer ${token.trim()}` };
  expect((await callOver(server.url, 'create_api_key', { name: 'n', scopes: [] }, headers)).status).toBe(200);
  expect((await callOver(server.url, 'list_orders')).body.code).toBe('missing_api_key');
  const unknown = await run([...command, 'tokens'], { cwd: project });
  expect(unknown).toEqual({
    code: 2,
    stdout: '',
    stderr: 'mcp-key-server: there is no command tokens; did you mean token?\n',
  });
});

test('on Bun its command starts from bytecode', async () => {
  const command = [process.execPath, 'node_modules/.bin/mcp-key-server', '--version'];
  const { stdout, stderr } = await run(command, { cwd: project, env: { BUN_JSC_verboseDiskCache: '1' } });
  expect(`${stdout}${stderr}`).toContain('Cache hit for sourceCode');
});

test.each([
  ['bun', [process.execPath, 'node_modules/.bin/mcp-key-server', 'dev']],
  ['deno', [denoPath(), 'run', '--node-modules-dir=manual', '--allow-all', 'npm:mcp-key-server', 'dev']],
])('its command dev, on %s, serves what is saved', async (_, command) => {
  const tool = join(project, 'tools/hello.ts');
  writeFileSync(tool, toolFile('hello', saying("'one'")));
  await using server = await startServer({ command, folder: project });
  const said = async () => (await callOver(server.url, 'hello')).body.content?.[0].text;
  expect(await said()).toBe('one');
  writeFileSync(tool, toolFile('hello', saying("'two'")));
  await waitFor(async () => (await said()) === 'two');
  rmSync(tool);
  await waitFor(async () => (await said()) === undefined);
  expect(await server.stop()).toBe(0);
});

test('on Node.js it says what it runs on', async () => {
  const { code, stderr } = await run(['node', '-e', "import('mcp-key-server').then(({ start }) => start())"], {
    cwd: project,
  });
  expect(code).toBe(1);
  expect(stderr).toContain('mcp-key-server runs on Bun and on Deno, and this is neither');
});

test('npm installs it, and its command then runs', async () => {
  const folder = diskFolder();
  cpSync(join(project, 'package.json'), join(folder, 'package.json'));
  await output(['npm', 'install', '--no-audit', '--no-fund', '--prefer-offline'], {
    cwd: folder,
    env: productionEnv(folder),
  });
  const token = await output(['npx', 'mcp-key-server', 'token', '--sub', 'alice'], {
    cwd: folder,
    env: productionEnv(folder),
  });
  expect(token.split('.')).toHaveLength(3);
}, 180_000);
