// What the loop monitor of a server process says (loop-monitor.ts).

import { join } from 'node:path';
import type { ServerProcess } from './server-process.ts';
import { waitFor } from './wait-for.ts';

/** To be loaded into the server before its own code. */
export const LOOP_MONITOR = join(import.meta.dir, 'loop-monitor.ts');

/** For how long the server's event loop was held up at most since this was last asked. */
export async function longestPauseMs(server: ServerProcess): Promise<number> {
  const reports = () =>
    server
      .stderr()
      .split('\n')
      .filter((line) => line.startsWith('{'));
  const before = reports().length;
  server.signal('SIGUSR2');
  await waitFor(async () => reports().length > before);
  return JSON.parse(reports().at(-1) ?? '').longestPausesMs[0];
}
