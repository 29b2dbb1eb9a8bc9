// A bounded queue that nobody can fill for others: when it is full, all that wait or have come since the last were taken have
// the same chance of a place (reservoir sampling), so a flood displaces mostly itself.

export type Reservoir<T> = ReturnType<typeof createReservoir<T>>;

export function createReservoir<T>(places: number) {
  const held: T[] = [];
  let offered = 0; // since the last `take`, with those that had a place then

  return {
    /** Gives `one` a place, possibly another's. Returns who has none then, or undefined. */
    offer(one: T): T | undefined {
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
    /** Takes up to `count` out, the longest placed first. */
    take(count: number): T[] {
      const taken = held.splice(0, count);
      offered = held.length;
      return taken;
    },
    get size(): number {
      return held.length;
    },
  };
}
