// Work that blocks the event loop, one piece after the other. After some milliseconds of it in a row, the event loop runs
// what else is waiting.

const BLOCKING_MS_MAX = 3;

/** Runs `work` when it is its turn. */
export type Turns = <T>(work: () => T) => Promise<T>;

export function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve();
  let yieldedAtMs = 0;

  async function yieldToEventLoop(): Promise<void> {
    if (performance.now() - yieldedAtMs < BLOCKING_MS_MAX) return;
    await endOfTurn();
    yieldedAtMs = performance.now();
  }

  return (work) => {
    const mine = last.then(work);
    last = mine.then(yieldToEventLoop, yieldToEventLoop);
    return mine;
  };
}

/** Resolves when the event loop has run what is ready. */
export const endOfTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
