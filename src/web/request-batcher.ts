// Batches requests under load: those that arrive within one turn of the event loop are handled together at its end. The
// code that handles them then stays in the processor's caches, and a client with many connections wakes once for all
// responses.

/** Returns undefined to handle a request now. Otherwise it resolves at the end of this turn of the event loop. */
type EndOfTurn = () => Promise<void> | undefined;

/**
 * The first requests of a turn are handled at once: if no more follow, waiting gains nothing. It also helps clients
 * that pipeline: the runtime closes a connection if a second request comes before the first response.
 */
const AT_ONCE_PER_TURN = 2;
/** After a turn with more requests than this, more are expected, and none is handled at once. */
const QUIET_TURN_MAX = 4;

export function createRequestBatcher(): EndOfTurn {
  let begun = 0;
  let atOnce = AT_ONCE_PER_TURN;
  let turnEnd: Promise<void> | undefined;
  let release = () => {};

  function endTurn(): void {
    atOnce = begun > QUIET_TURN_MAX ? 0 : AT_ONCE_PER_TURN;
    begun = 0;
    turnEnd = undefined;
    release();
  }

  return () => {
    if (begun === 0) setImmediate(endTurn);
    begun += 1;
    if (begun <= atOnce) return undefined;
    turnEnd ??= new Promise((resolve) => {
      release = resolve;
    });
    return turnEnd;
  };
}
