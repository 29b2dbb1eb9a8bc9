// Under load, answers that become ready within one turn of the event loop leave together at its end. A client with many
// connections is then woken once for all of them; waking it for each costs more than most of the work on a request.

/** When an answer that is ready may leave: now (undefined), or at the end of this turn of the event loop. */
export type Departure = () => Promise<void> | undefined;

/**
 * The first few answers of a turn leave at once: if no more follow, waiting gains nothing. This also helps clients that
 * pipeline: the runtime ends a connection on which a second request comes before the first is answered.
 */
const AT_ONCE_PER_TURN = 2;

export function createDepartures(): Departure {
  let departed = 0;
  let turnEnd: Promise<void> | undefined;
  let leave = () => {};

  function endTurn(): void {
    departed = 0;
    turnEnd = undefined;
    leave();
  }

  return () => {
    if (departed === 0) setImmediate(endTurn);
    departed += 1;
    if (departed <= AT_ONCE_PER_TURN) return undefined;
    turnEnd ??= new Promise((resolve) => {
      leave = resolve;
    });
    return turnEnd;
  };
}
