// The names of all tests, also of those that run for an hour before their report is read.

import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { readReport } from './runner/report.ts';
import { temporaryFolder } from './support/folder.ts';

test('a report of all tests finds no fault with their names', () => {
  const report = join(temporaryFolder(), 'report.xml');
  const files = [...new Glob('tests/**/*.{test,long}.ts').scanSync()].map((file) => `./${file}`);
  // No test has this name: each file is loaded, and its tests are named as skipped.
  const args = ['test', '-t', 'a name that no test has', '--reporter=junit', `--reporter-outfile=${report}`];
  Bun.spawnSync([process.execPath, '--no-env-file', ...args, ...files], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME }, // with all rows
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  expect(readFileSync(report, 'utf8').match(/<testcase /g)?.length).toBeGreaterThan(4000);
  const faults = readReport(report, []).faults.filter(({ lines }) => lines.some((line) => line.startsWith('its name')));
  expect(faults).toEqual([]);
}, 60_000);
