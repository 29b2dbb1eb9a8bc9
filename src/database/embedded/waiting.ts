// How statements of a file wait: for their turn in this process, and for a lock of another process or connection.

import { nextTurn, sleep } from '../../lib/timeout.ts';
import { codeOf } from '../native.ts';

/** After so much work in a row that blocks the event loop, the loop runs what else is waiting. */
const BLOCKING_MS_MAX = 3;
/** While the file is locked, a statement is tried again until this long after it was asked for. */
export const RETRY_MS_MAX = 5000;
/** The random pause between two tries is up to this long. */
const RETRY_PAUSE_MS_MAX = 20;

const BUSY = /^SQLITE_(BUSY|LOCKED|PROTOCOL)/;

export type Turns = <T>(work: () => T) => Promise<T>;

export function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve();
  let yieldedAtMs = 0;

  async function yieldToEventLoop(): Promise<void> {
    if (performance.now() - yieldedAtMs < BLOCKING_MS_MAX) return;
    await nextTurn();
    yieldedAtMs = performance.now();
  }

  return (work) => {
    const mine = last.then(work);
    last = mine.then(yieldToEventLoop, yieldToEventLoop);
    return mine;
  };
}

export const isBusy = (error: unknown): boolean => BUSY.test(codeOf(error));

export const pauseWhileBusy = (): Promise<void> => sleep(Math.random() * RETRY_PAUSE_MS_MAX);

export async function retryBusy<T>(run: () => Promise<T>, forMs: number): Promise<T> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedAtMs > forMs) throw error;
      await pauseWhileBusy();
    }
  }
}
