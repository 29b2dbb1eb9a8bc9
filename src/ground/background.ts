// Repeats work in the background: one run at a time, with a pause between two. Logs what a run throws; an outage of the
// key store only as a warning.

import { StoreOutage } from './result.ts';
import type { Cancel, Clock } from './runtime.ts';

interface ErrorLog {
  error(event: string, fields: { error: unknown }): void;
  warn(event: string, fields: { reason: string }): void;
}

interface RepeatOptions {
  /** The pause after each run; null: none until `run` or `runNow`. A function is called after each run. */
  readonly everyMs: number | (() => number | null);
  /** The exact pause before the first run; null: it waits for `run` or `runNow`. Defaults to `everyMs`. */
  readonly firstMs?: number | null;
  /** Lengthens or shortens pauses by up to this part, at random, so that processes don't all run at once. */
  readonly jitter?: number;
  readonly clock: Clock;
  readonly log: ErrorLog;
  /** The log event when a run throws. */
  readonly event: string;
  /** Whether it logs that the key store is out of reach; by default it does. */
  readonly logsOutages?: boolean;
}

export type Repeated = ReturnType<typeof repeat>;

export function repeat(options: RepeatOptions, work: () => Promise<void>) {
  const { everyMs, jitter = 0, clock, log, event, logsOutages = true } = options;
  let underWay: Promise<void> | undefined;
  let cancel: Cancel | undefined; // cancels the last pause
  let stopped = false;

  function pause(ms: number | null): void {
    if (stopped || ms === null) return;
    cancel = clock.after(ms, runNow);
  }

  function pauseAsUsual(): void {
    const ms = typeof everyMs === 'number' ? everyMs : everyMs();
    pause(ms === null ? null : ms * (1 + jitter * (2 * Math.random() - 1)));
  }

  /** Runs now, or joins the run under way. Rejects with what it throws. */
  function run(): Promise<void> {
    cancel?.();
    underWay ??= begin();
    return underWay;
  }

  async function begin(): Promise<void> {
    try {
      await work();
    } finally {
      underWay = undefined;
      pauseAsUsual();
    }
  }

  /** Runs like `run`, but logs what it throws. */
  function runNow(): void {
    run().catch((error) => {
      if (!(error instanceof StoreOutage)) log.error(event, { error });
      else if (logsOutages && !stopped) log.warn(event, { reason: error.reason });
    });
  }

  if (options.firstMs === undefined) pauseAsUsual();
  else pause(options.firstMs);
  return {
    run,
    runNow,
    get underWay(): Promise<void> | undefined {
      return underWay;
    },
    stop(): void {
      stopped = true;
      cancel?.();
    },
  };
}
