// Under load, answers that are ready within one turn of the event loop leave in a row at its end. A client at the other
// end of many connections is then woken once for all of them; to wake it for each costs more than most of what a request
// costs here.

/** When an answer that is ready may leave: now (undefined), or at the end of this turn of the event loop. */
export type Departure = () => Promise<void> | undefined;

/**
 * The first few of a turn leave at once: where there are no more, nothing is gained by waiting. It also serves clients that
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
