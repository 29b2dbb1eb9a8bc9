// Whoever follows the README and keeps tools in the folder keeps green tests: they say nothing of other people's tools.

import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { filesToWrite, readDocument } from './support/documents.ts';
import { inRest } from './support/everything.ts';
import { copyOfAll } from './support/source.ts';

/** It stops every start that finds it. */
const DEMANDING = `import { type ToolDeps, v } from 'mcp-key-server';

export default ({ settings }: ToolDeps) => {
  settings(v.object({ TOOL_THAT_NOBODY_SETS: v.string() }));
  return [];
};
`;

/** They start servers, and compare lists of tools, tables and documents. */
const TESTS = [
  'tests/readme.test.ts',
  'tests/process/readme.test.ts',
  'tests/documents.test.ts',
  'tests/imports.test.ts',
  'tests/mcp/clients.test.ts',
  'tests/api/openapi.test.ts',
];

inRest(test)(
  'the tests stay green with the example of the README in place, and another tool beside it',
  async () => {
    const root = copyOfAll();
    const readme = readDocument('README.md');
    const files = filesToWrite(readme.text);
    expect(files).toHaveLength(1);
    for (const file of files) writeFileSync(join(root, file), readme.codeBlock('A tool of your own', 'ts'));
    writeFileSync(join(root, 'tools/demanding.ts'), DEMANDING);
    const { exited, stderr } = Bun.spawn([process.execPath, '--no-env-file', 'test', '--timeout', '120000', ...TESTS], {
      cwd: root,
      env: { PATH: process.env.PATH, HOME: root, NO_COLOR: '1' },
      stdout: 'ignore',
      stderr: 'pipe',
    });
    const [code, said] = await Promise.all([exited, new Response(stderr).text()]);
    const failed = said.split('\n').filter((line) => /^\(fail\)|^error:/.test(line));
    expect({ code, failed }).toEqual({ code: 0, failed: [] });
  },
  240_000,
); // a run of tests, on a machine that is ten times slower, too
