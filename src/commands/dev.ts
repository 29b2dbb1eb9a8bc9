// `bun run dev`: serves, and restarts when a file of the server changes. dev-server.ts reloads tools.
// (`bun --watch` only sees files that were imported successfully.)

import { watch } from 'node:fs';
import { dirname, join } from 'node:path';

const SRC = dirname(import.meta.dirname);
/** Editors write a file in several steps, so changes are debounced. */
const SETTLE_MS = 50;

const serve = () =>
  Bun.spawn([process.execPath, join(SRC, 'commands/dev-server.ts')], { stdio: ['inherit', 'inherit', 'inherit'] });

function dev(): void {
  let settling: ReturnType<typeof setTimeout> | undefined;
  let restarting = Promise.resolve();
  const restart = async () => {
    server.kill('SIGTERM');
    await server.exited;
    server = serve();
  };
  const changed = () => {
    clearTimeout(settling);
    settling = setTimeout(() => {
      restarting = restarting.then(restart); // one at a time, or a server would be left running
    }, SETTLE_MS);
  };
  for (const folder of [SRC, join(SRC, '../db')]) watch(folder, { recursive: true }, changed);
  let server = serve(); // after watching, so that no change is missed
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, async () => {
      clearTimeout(settling);
      await restarting;
      server.kill(signal);
      process.exit(await server.exited);
    });
  }
}

if (import.meta.main) {
  const args = process.argv.slice(2);
  if (args.length === 0) dev();
  else process.exitCode = await (await import('./all.ts')).main(['dev', ...args]); // help, or a refusal
}
