// `bun tests/lab/flaky.ts [--times 10] [--busy 4] [SCRIPT]`: runs a script of package.json, by default `test`, several times
// beside processes that do nothing but compute. Prints the seconds, the load and the total of each run, and what failed.

import { loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  options: { times: { type: 'string', default: '10' }, busy: { type: 'string', default: '4' } },
  allowPositionals: true,
});
const [script = 'test'] = positionals;
const bun = process.execPath;

const busy = Array.from({ length: Number(values.busy) }, () => Bun.spawn([bun, '-e', 'for (;;);']));
process.on('exit', () => {
  for (const child of busy) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));

let failed = 0;
for (let run = 1; run <= Number(values.times); run += 1) {
  const startedMs = performance.now();
  const child = Bun.spawn([bun, 'run', script], {
    cwd: join(import.meta.dir, '../..'),
    stdout: 'pipe',
    stderr: 'pipe',
  });
  process.once('exit', () => child.kill('SIGINT')); // the runner stops what it has started
  const [out, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
  const total = out.trim().split('\n').at(-1);
  process.stdout.write(`run ${run}: ${seconds} s, load ${loadavg()[0]?.toFixed(1)}, exit ${code}: ${total}\n`);
  if (code === 0) continue;
  failed += 1;
  const failures = errors.indexOf('\n== tests/'); // where the runner says them once more
  process.stdout.write(failures === -1 ? errors.slice(-4000) : errors.slice(failures));
}
process.exit(failed === 0 ? 0 : 1);
