// A bounded queue that nobody can fill for others: when it is full, all that wait or have come since the last were taken have
// the same chance of a place (reservoir sampling), so a flood displaces mostly itself.

export interface Reservoir<T> {
  /** Gives `one` a place, possibly another's. Returns who has none then, or undefined. */
  offer(one: T): T | undefined;
  /** Takes up to `count` out, the longest placed first. */
  take(count: number): T[];
  /** How many have a place. */
  readonly size: number;
}

export function createReservoir<T>(places: number): Reservoir<T> {
  const held: T[] = [];
  let offered = 0; // since the last `take`, with those that had a place then

  return {
    offer(one) {
      offered += 1;
      if (held.length < places) {
        held.push(one);
        return undefined;
      }
      const at = Math.floor(Math.random() * offered);
      const displaced = held[at];
      if (displaced === undefined) return one;
      held[at] = one;
      return displaced;
    },
    take(count) {
      const taken = held.splice(0, count);
      offered = held.length;
      return taken;
    },
    get size() {
      return held.length;
    },
  };
}
