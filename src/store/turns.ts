// A few places, and a queue before them in the order of coming.

export interface Turns {
  /** True with a place, which `leave` gives back; false when none was free in time. */
  enter(withinMs: number): Promise<boolean>;
  leave(): void;
}

export function createTurns(places: number): Turns {
  let free = places;
  const waiting: (() => void)[] = [];

  function wait(withinMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        waiting.splice(waiting.indexOf(admit), 1);
        resolve(false);
      }, withinMs);
      const admit = () => {
        clearTimeout(timer);
        resolve(true);
      };
      waiting.push(admit);
    });
  }

  return {
    async enter(withinMs) {
      if (free === 0) return wait(withinMs);
      free -= 1;
      return true;
    },
    leave() {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    },
  };
}
