// Under load, answers that become ready within one turn of the event loop leave together at its end. A client with many
// connections is then woken once for all of them; waking it for each costs more than most of the work on a request.

/** When an answer that is ready may leave: now (undefined), or at the end of this turn of the event loop. */
export type EndOfTurn = () => Promise<void> | undefined;

/**
 * The first few answers of a turn leave at once: if no more follow, waiting gains nothing. This also helps clients that
 * pipeline: the runtime ends a connection on which a second request comes before the first is answered.
 */
const AT_ONCE_PER_TURN = 2;

/**
 * Each answer that waits is let go by the one before it, so that whatever is looked at last is looked at just before
 * the answer is written, and not while many others are still to be written.
 */
export function createResponseBatcher(): EndOfTurn {
  let departed = 0;
  let last: Promise<void> | undefined;
  let leave = () => {};

  function endTurn(): void {
    departed = 0;
    last = undefined;
    leave();
  }

  function turnEnd(): Promise<void> {
    return new Promise((resolve) => {
      leave = resolve;
    });
  }

  return () => {
    if (departed === 0) setImmediate(endTurn);
    departed += 1;
    if (departed <= AT_ONCE_PER_TURN) return undefined;
    last = last === undefined ? turnEnd() : last.then(next);
    return last;
  };
}

const next = () => {};
