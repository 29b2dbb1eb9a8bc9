// What signals do, and the graceful shutdown.

import type { Clock } from '../lib/runtime.ts';
import { sleep } from '../lib/timeout.ts';
import type { Log, LogFields } from '../log/log.ts';
import { flushed } from './first-line.ts';
import type { Listener } from './listener.ts';

/** Responses say `Connection: close` this long before the listener closes: keep-alive clients reconnect elsewhere. */
export const DRAIN_NOTICE_MS = 300;

/**
 * At the end of the notice responses wait. A client that waits for a response sends nothing, so hardly any request is
 * on its way when the socket closes, which would reset it.
 */
const PAUSE_MS = 50;

/** Then requests may take this long to finish. */
const DRAIN_MS_MAX = 10_000;

/** Time to flush a response after its handler returned. */
const RESPONSE_FLUSH_MS_MAX = 1000;

/** Under a package runner one Ctrl-C arrives twice. Only a second signal this much later exits at once. */
const SECOND_SIGNAL_AFTER_MS = 1000;

/** Begins to stop, unless that has begun; the process then exits with `code`. */
export type Stop = (why: LogFields, code: number) => void;

export interface SignalOptions {
  onSignal(handler: (signal: string) => void): void;
  exit(code: number): never;
  fail(error: unknown): never;
  shutDown(): Promise<void>;
  /** Null: SIGHUP stops. */
  readonly renew: (() => Promise<void>) | null;
  readonly clock: Clock;
  readonly log: Log;
}

/** The first signal begins the shutdown; a later second one exits at once. With own TLS, SIGHUP renews it. */
export function obeySignals({ onSignal, exit, fail, shutDown, renew, clock, log }: SignalOptions): Stop {
  let stoppingSinceMs: number | undefined;
  const stop: Stop = (why, code) => {
    if (stoppingSinceMs !== undefined) return;
    stoppingSinceMs = clock.monotonicMs();
    log.info('stopping', why);
    void shutDown().then(() => exit(code), fail);
  };
  onSignal((signal) => {
    if (signal === 'SIGHUP' && renew !== null) {
      if (stoppingSinceMs === undefined) void renew().catch(fail);
      return;
    }
    if (stoppingSinceMs === undefined) stop({ signal }, 0);
    else if (clock.monotonicMs() - stoppingSinceMs >= SECOND_SIGNAL_AFTER_MS) exit(1);
  });
  return stop;
}

export interface Stoppable {
  readonly app: {
    beginDrain(): void;
    /** Until the returned function is called. */
    pauseResponses(): () => void;
    endStreams(): void;
    idle(): Promise<void>;
  };
  close(): Promise<void>;
}

/** Drains requests and streams, then closes the store and flushes the log. */
export async function shutDown({ app, close }: Stoppable, server: Listener, log: Log): Promise<void> {
  app.beginDrain();
  await sleep(DRAIN_NOTICE_MS - PAUSE_MS);
  const resume = app.pauseResponses();
  await sleep(PAUSE_MS);
  app.endStreams();
  const stopped = server.stop(); // closes the socket at once
  resume();
  // `stopped` also waits for half-sent requests, which are not handled yet; `handled` does not.
  const handled = app.idle().then(() => sleep(RESPONSE_FLUSH_MS_MAX));
  await Promise.race([stopped, handled, sleep(DRAIN_MS_MAX)]);
  server.kill();
  try {
    await close();
    log.info('stopped');
  } finally {
    await flushed(log);
  }
}
