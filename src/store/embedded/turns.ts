// Queues statements, because each blocks the event loop, and yields to it in between.

import { nextTurn } from '../../ground/runtime.ts';

/** After this much consecutive blocking work, the event loop runs what else is waiting. */
const BLOCKING_MS_MAX = 3;

/** Runs `work` after everything queued before. Rejects with what it throws. */
export type TakeTurn = <T>(work: () => T) => Promise<T>;

/** Creates a queue that yields to the event loop after each `BLOCKING_MS_MAX` of work. */
export function createTurns(): TakeTurn {
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
