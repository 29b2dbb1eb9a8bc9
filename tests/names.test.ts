// The names of tests that `.ci/run` does not run, whose report is read an hour later: more rows, what measures, long forms.

import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { readReport } from './runner/report.ts';
import { temporaryFolder } from './support/folder.ts';

/** As run.ts has them. */
const HAS_MORE = /support\/everything\.ts'/;
const ALONE_OR_LONG = /\.(alone\.test|long)\.ts$/;

test('a report of the tests that only test:all runs finds no fault with their names', () => {
  const report = join(temporaryFolder(), 'report.xml');
  const all = [...new Glob('tests/**/*.{test,long}.ts').scanSync()];
  const files = all.filter((file) => HAS_MORE.test(readFileSync(file, 'utf8')) || ALONE_OR_LONG.test(file));
  // No test has this name: each file is loaded, and its tests are named as skipped.
  const args = ['test', '-t', 'a name that no test has', '--reporter=junit', `--reporter-outfile=${report}`];
  Bun.spawnSync([process.execPath, '--no-env-file', ...args, ...files.map((file) => `./${file}`)], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME }, // with all rows
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  expect(readFileSync(report, 'utf8').match(/<testcase /g)?.length).toBeGreaterThan(1500);
  const faults = readReport(report, []).faults.filter(({ lines }) => lines.some((line) => line.startsWith('its name')));
  expect(faults).toEqual([]);
}, 180_000);
