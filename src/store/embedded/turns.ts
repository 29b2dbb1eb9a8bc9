// Statements take turns, because each blocks the event loop.

import { nextTurn } from '../../ground/runtime.ts';

/** After so much work in a row that blocks the event loop, the loop runs what else is waiting. */
const BLOCKING_MS_MAX = 3;

/** Runs `work` after all that came before. Rejects with what it throws. */
export type TakeTurn = <T>(work: () => T) => Promise<T>;

/** Creates a queue that lets the event loop run what else waits after each `BLOCKING_MS_MAX` of work. */
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
