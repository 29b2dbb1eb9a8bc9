// A log whose lines a test reads.

import { type Clock, createLog, systemClock } from '../../src/start/package/index.ts';

export function collectedLog(level: 'info' | 'warn' = 'info', clock: Clock = systemClock) {
  const chunks: string[] = [];
  const write = async (chunk: Uint8Array) => void chunks.push(new TextDecoder().decode(chunk));
  const log = createLog({ level, clock, write });
  return {
    log,
    /** What each write had. */
    chunks,
    /** All lines so far, parsed. */
    async lines() {
      await log.flush();
      const texts = chunks.join('').split('\n');
      return texts.filter(Boolean).map((line) => JSON.parse(line));
    },
  };
}
