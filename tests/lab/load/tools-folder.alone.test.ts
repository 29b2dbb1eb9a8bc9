// What tool files cost at the start, in processor time.

import { expect, test } from 'bun:test';
import { readDocument } from '../../support/documents.ts';
import { folderWith } from '../../support/folder.ts';
import { commandOf } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const EXAMPLE = readDocument('README.md').codeBlock('A tool of your own', 'ts');

/**
 * Milliseconds of processor time until the server listens: unlike the time that passes, it hardly depends on what else
 * runs.
 */
async function startMs(files: Readonly<Record<string, string>>): Promise<number> {
  const child = Bun.spawn(commandOf('bun'), {
    cwd: folderWith(files),
    env: { PORT: '0', JWT_SECRET: TEST_SECRET },
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const { value } = await child.stderr.getReader().read();
  expect(new TextDecoder().decode(value)).toContain('listening on');
  child.kill('SIGKILL');
  await child.exited;
  return Number(child.resourceUsage()?.cpuTime.total) / 1000;
}

/** 30 ms where a start takes 150. */
const PART_OF_START_MAX = 0.2;

test('ten tool files take less than a fifth of a start', async () => {
  const ten = Object.fromEntries(
    Array.from({ length: 10 }, (_, index) => [
      `tools/${index}.ts`,
      EXAMPLE.replace('list_orders', `list_orders_${index}`),
    ]),
  );
  const [without, withTen]: [number[], number[]] = [[], []];
  for (let round = 0; round < 5; round += 1) {
    without.push(await startMs({}));
    withTen.push(await startMs(ten));
  }
  expect(Math.min(...withTen) / Math.min(...without) - 1).toBeLessThan(PART_OF_START_MAX);
});
