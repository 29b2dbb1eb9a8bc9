// Tools in a folder outside the repository, without a package.json: the documents' commands, typed there.

import { beforeAll, expect, test } from 'bun:test';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { errorsIn, output, run } from '../support/command.ts';
import { ROOT, readDocument } from '../support/documents.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { productionEnv } from '../support/production.ts';
import { copyOfSource } from '../support/source.ts';

const TOOLS_README = readDocument('src/tools/README.md');
const folder = diskFolder();
const env = productionEnv(folder);

beforeAll(async () => {
  const clone = copyOfSource();
  for (const file of ['README.md', 'LICENSE']) cpSync(join(ROOT, file), join(clone, file));
  fill(folder, {
    'list-orders.ts': readDocument('README.md').codeBlock('A tool of your own', 'ts'),
    'list-orders.test.ts': TOOLS_README.codeBlock('Tests', 'ts'),
    'tsconfig.json': TOOLS_README.codeBlock('Tests', 'json'),
  });
  const typed = TOOLS_README.codeBlock('Tests', 'sh').replaceAll('../my-tools', folder);
  await output(['sh', '-e', '-c', typed], { cwd: clone, env });
}, 180_000);

test('the compiler knows the package, and says where a tool does not fit', async () => {
  const tsc = [process.execPath, 'x', 'tsc'];
  const wrong = "import { defineTool } from 'mcp-key-server';\n\nexport default () => defineTool(1);\n";
  fill(folder, { '_wrong.ts': wrong });
  const { stdout, stderr } = await run(tsc, { cwd: folder, env });
  expect([errorsIn(stdout), stderr]).toEqual([[expect.stringMatching(/^_wrong\.ts\(3,/)], '']);
}, 240_000);

test("a tool's test runs there", async () => {
  const { code, stderr } = await run([process.execPath, 'test', '--timeout', '180000'], { cwd: folder, env });
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining(' 1 pass\n') });
}, 180_000);

test('the versions of what is added beside it are those of the repository', async () => {
  const { devDependencies } = await Bun.file(join(ROOT, 'package.json')).json();
  const typed = TOOLS_README.codeBlock('Tests', 'sh');
  for (const name of ['bun-types', 'typescript']) expect(typed).toContain(`${name}@${devDependencies[name]}`);
});
