// A counting semaphore: first come, first served, and no wait is endless.

export interface Semaphore {
  /** True with a permit, which `release` gives back; false when none was free in time. */
  acquire(withinMs: number): Promise<boolean>;
  release(): void;
}

export function createSemaphore(permits: number): Semaphore {
  let free = permits;
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
    async acquire(withinMs) {
      if (free === 0) return wait(withinMs);
      free -= 1;
      return true;
    },
    release() {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    },
  };
}
