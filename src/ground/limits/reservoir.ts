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
  const placed: T[] = [];
  let offered = 0; // since the last `take`, with those that had a place then

  return {
    offer(one) {
      offered += 1;
      if (placed.length < places) {
        placed.push(one);
        return undefined;
      }
      const at = Math.floor(Math.random() * offered);
      const displaced = placed[at];
      if (displaced === undefined) return one;
      placed[at] = one;
      return displaced;
    },
    take(count) {
      const taken = placed.splice(0, count);
      offered = placed.length;
      return taken;
    },
    get size() {
      return placed.length;
    },
  };
}
