// `bun run test`: two files of tests at a time, then one by one, each in a process of its own, those that measure
// (*.alone.test.ts): beside other tests, or after them, memory is collected later. With arguments, which are those of
// `bun test`, everything that they choose runs one by one.

import { Glob, spawn } from 'bun';

const ALONE = '*.alone.test.ts';

const given = process.argv.slice(2);
const alone = [...new Glob(`tests/**/${ALONE}`).scanSync()].sort();
const usual = [['--parallel=2', `--path-ignore-patterns=**/${ALONE}`], ...alone.map((file) => [file])];
const runs = given.length > 0 ? [given] : usual;

let stopped = false;
let failed = false;
for (const args of runs) {
  const tests = spawn([process.execPath, '--no-env-file', 'test', '--timeout', '60000', ...args], {
    stdio: ['inherit', 'inherit', 'inherit'],
  });
  const stop = (signal: NodeJS.Signals) => {
    stopped = true;
    tests.kill(signal);
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  failed = (await tests.exited) !== 0 || failed;
  process.off('SIGINT', stop).off('SIGTERM', stop);
  if (stopped) break;
}
process.exit(failed || stopped ? 1 : 0);
