// Loaded into a server before its own code: on SIGUSR1 it gets ready to stop the process, as SIGSTOP does from outside,
// at the next end of a turn of the event loop for which responses wait that are ready to leave (http/response-batching.ts).
// It says so on stderr.

import { writeSync } from 'node:fs';

const runAtTurnEnd = globalThis.setImmediate;
let ready = false;

function freezing(callback: (...args: unknown[]) => void, ...args: unknown[]) {
  if (!ready || callback.name !== 'endTurn') return runAtTurnEnd(callback, ...args);
  return runAtTurnEnd(() => {
    ready = false;
    process.kill(process.pid, 'SIGSTOP');
    callback(...args);
  });
}

globalThis.setImmediate = Object.assign(freezing, runAtTurnEnd);

process.on('SIGUSR1', () => {
  ready = true;
  writeSync(2, 'ready to freeze\n');
});
