// Every test body of the other folders that talks to the service holds wherever its keys are kept.

import { expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

const TESTS = join(import.meta.dir, '..');
/** Runs of their own, and folders that hold no bodies against the service. */
const NOT_HERE = ['store', 'conformance', 'bench', 'support', 'widgets', 'deno'];

const bodies = readdirSync(TESTS, { withFileTypes: true })
  .filter((entry) => (entry.isDirectory() ? !NOT_HERE.includes(entry.name) : entry.name === 'app.test.ts'))
  .map(({ name }) => `./${join('tests', name)}`);

test.each(['remote', 'replica'])(
  'the tests of %s: all pass',
  async (mode) => {
    const run = Bun.spawn([process.execPath, 'test', ...bodies], {
      cwd: join(TESTS, '..'),
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
