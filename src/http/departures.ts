// Under load, answers that are ready within one turn of the event loop leave in a row at its end. A client at the other
// end of many connections is then woken once for all of them; to wake it for each costs more than most of what a request
// costs here.

/** Calls `leave` now, or at the end of this turn of the event loop, after those of earlier callers. */
export type Departures = (leave: () => void) => void;

/** For requests that a client may send another one behind (pipelining); behind a POST it may not (RFC 9112 §9.3.2). */
export const atOnce: Departures = (leave) => leave();

/**
 * The first of a turn leave at once. Where there are no more nobody waits, and clients that pipeline all the same are
 * served: the runtime ends a connection on which a second request comes while the first is not answered.
 */
const AT_ONCE_PER_TURN = 2;

export function createDepartures(): Departures {
  let departed = 0;
  let waiting: (() => void)[] = [];

  function endTurn(): void {
    const leaving = waiting;
    waiting = [];
    departed = 0;
    for (const leave of leaving) leave();
  }

  return (leave) => {
    if (departed === 0) setImmediate(endTurn);
    departed += 1;
    if (departed <= AT_ONCE_PER_TURN) leave();
    else waiting.push(leave);
  };
}
