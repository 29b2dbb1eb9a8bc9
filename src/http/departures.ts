// Answers that are ready within one turn of the event loop leave in a row at its end. A client at the other end of many
// connections is then woken once for all of them; to wake it for each costs more than most of what a request costs here.

/** Runs `leave` at the end of this turn of the event loop, after those of earlier callers. */
export type Departures = (leave: () => void) => void;

export function createDepartures(): Departures {
  let waiting: (() => void)[] = [];
  function departAll(): void {
    const leaving = waiting;
    waiting = [];
    for (const leave of leaving) leave();
  }
  return (leave) => {
    if (waiting.length === 0) setImmediate(departAll);
    waiting.push(leave);
  };
}
