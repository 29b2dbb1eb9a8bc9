// Under load, responses that become ready within one turn of the event loop are sent together at its end. A client with
// many connections is then woken once for all; waking it for each costs more than most of the work on a request.

/** Returns undefined to send now. Otherwise it resolves at the end of this turn of the event loop. */
type EndOfTurn = () => Promise<void> | undefined;

/**
 * The first responses of a turn are sent at once: if no more follow, waiting gains nothing. It also helps clients that
 * pipeline: the runtime ends a connection on which a second request comes before the response to the first.
 */
const AT_ONCE_PER_TURN = 2;
/** After a turn with more responses than this, more are expected, and none is sent at once. */
const QUIET_TURN_MAX = 4;

export function createResponseBatcher(): EndOfTurn {
  let sent = 0;
  let atOnce = AT_ONCE_PER_TURN;
  let turnEnd: Promise<void> | undefined;
  let release = () => {};

  function endTurn(): void {
    atOnce = sent > QUIET_TURN_MAX ? 0 : AT_ONCE_PER_TURN;
    sent = 0;
    turnEnd = undefined;
    release();
  }

  return () => {
    if (sent === 0) setImmediate(endTurn);
    sent += 1;
    if (sent <= atOnce) return undefined;
    turnEnd ??= new Promise((resolve) => {
      release = resolve;
    });
    return turnEnd;
  };
}
