// The log of a server. Its first line says what was loaded and how it is configured, so the other lines wait for it.

import type { Clock } from '../lib/runtime.ts';
import { withTimeout } from '../lib/timeout.ts';
import { createLog, type Log, type LogFields, type LogLevel } from '../log/log.ts';

/** Time to flush the log: a reader that does not read must not keep the process alive. */
const LOG_FLUSH_MS_MAX = 1000;

export interface OpenedLog {
  readonly log: Log;
  begin(fields: LogFields): void;
  /** Writes the waiting lines, when there will be no first line. */
  giveUp(): Promise<void>;
}

export interface OpenLogOptions {
  readonly level: LogLevel;
  readonly clock: Clock;
  readonly write: (chunk: Uint8Array) => Promise<void>;
}

export function openLog({ level, clock, write }: OpenLogOptions): OpenedLog {
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const log = createLog({ level, clock, write: (chunk) => begun.then(() => write(chunk)) });
  return {
    log,
    begin(fields) {
      const first = createLog({ level, clock, write });
      first.info('started', fields);
      resolve(first.flush());
    },
    giveUp() {
      resolve();
      return flushed(log);
    },
  };
}

export const flushed = (log: Log): Promise<void> => withTimeout(log.flush(), LOG_FLUSH_MS_MAX, undefined);
