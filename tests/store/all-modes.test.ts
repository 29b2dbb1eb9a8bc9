// Every test body of the other folders that talks to the service holds wherever its keys are kept.

import { expect, test } from 'bun:test';
import { join } from 'node:path';

const ROOT = join(import.meta.dir, '../..');
/** Where the service is called over REST and MCP. */
const BODIES = ['app.test.ts', 'keys', 'mcp', 'tools'].map((name) => `./tests/${name}`);

test.each(['remote', 'replica'])(
  'the tests of %s: all pass',
  async (mode) => {
    const run = Bun.spawn([process.execPath, 'test', '--timeout', '30000', ...BODIES], {
      cwd: ROOT,
      env: { ...process.env, TEST_STORE: mode, RUST_LOG: 'off' },
      stdout: 'ignore',
      stderr: 'pipe',
    });
    const [code, said] = await Promise.all([run.exited, new Response(run.stderr).text()]);
    expect({
      code,
      failed: said.split('\n').filter((line) => /^(\(fail|error:|Expected|Received)/.test(line)),
    }).toEqual({
      code: 0,
      failed: [],
    });
    expect(Number(/^ *(\d+) pass$/m.exec(said)?.[1])).toBeGreaterThan(100);
  },
  120_000,
);
