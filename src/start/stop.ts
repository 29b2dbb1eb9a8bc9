// Handles signals, and shuts down gracefully.

import { type Clock, sleep, withTimeout } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';

export interface RunningServer {
  /** The port, as picked by the system if 0 was requested. */
  readonly port: number;
  /** Stops accepting connections; resolves when all have finished their work. */
  stop(): Promise<void>;
  kill(): void;
}

/** How long before the listener closes responses say `Connection: close`, so that clients reconnect elsewhere. */
const DRAIN_NOTICE_MS = 300;

/**
 * How long responses are held back at the end of that notice. A client that waits for a response sends nothing, so hardly
 * any request is in transit when the socket closes, which would reset it.
 */
const PAUSE_MS = 50;

/** How long requests may then take to finish. */
const DRAIN_MS_MAX = 10_000;

/** Time for the responses of the calls that are ended then. */
const ENDED_MS_MAX = 100;

/** Time to flush a response after its handler returned. */
const RESPONSE_FLUSH_MS_MAX = 1000;

/** Time to flush the log: a stalled reader must not keep the process alive. */
const LOG_FLUSH_MS_MAX = 1000;

export const flushLog = (log: Log): Promise<void> => withTimeout(log.flush(), LOG_FLUSH_MS_MAX, undefined);

/** Under a package runner one Ctrl-C arrives twice. Only a second signal this much later exits at once. */
const SECOND_SIGNAL_AFTER_MS = 1000;

interface SignalOptions {
  onSignal(handler: (signal: string) => void): void;
  exit(code: number): never;
  fail(error: unknown): never;
  shutDown(): Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Handles signals: the first begins the graceful shutdown, whichever it is; a later second one exits at once. */
export function obeySignals({ onSignal, exit, fail, shutDown, clock, log }: SignalOptions): void {
  let stoppingSinceMs: number | undefined;
  onSignal((signal) => {
    if (stoppingSinceMs !== undefined) {
      if (clock.monotonicMs() - stoppingSinceMs >= SECOND_SIGNAL_AFTER_MS) exit(1);
      return;
    }
    stoppingSinceMs = clock.monotonicMs();
    log.info('stopping', { signal });
    void shutDown().then(() => exit(0), fail);
  });
}

export interface Stoppable {
  readonly app: {
    beginDrain(): void;
    /** Holds responses back until the returned function is called. */
    holdResponses(): () => void;
    endStreams(): void;
    endCalls(): void;
    idle(): Promise<unknown>;
  };
  close(): Promise<unknown>;
}

/** Drains requests and streams, then closes the store and flushes the log. */
export async function shutDown({ app, close }: Stoppable, server: RunningServer, log: Log): Promise<void> {
  app.beginDrain();
  await sleep(DRAIN_NOTICE_MS - PAUSE_MS);
  const resume = app.holdResponses();
  await sleep(PAUSE_MS);
  app.endStreams();
  const stopped = server.stop(); // closes the socket at once
  resume();
  // `stopped` also waits for half-sent requests, which no handler has yet; `handled` does not.
  const handled = app.idle().then(() => sleep(RESPONSE_FLUSH_MS_MAX));
  const tooLate = sleep(DRAIN_MS_MAX).then(() => {
    app.endCalls(); // a client whose stream ends without a response may wait for one, a minute or more
    return sleep(ENDED_MS_MAX);
  });
  await Promise.race([stopped, handled, tooLate]);
  server.kill();
  try {
    await close();
    log.info('stopped');
  } finally {
    await flushLog(log);
  }
}
