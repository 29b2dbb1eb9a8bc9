// When keys were refused, for about the last million: a set-associative table of fixed size, 12 MB. A flood in MCP
// batches brings more than 100,000 keys a second, and as entries of a Map they would take some 300 bytes each.

/** The first bits of a key's hash choose its set, so a key can be pushed out only by one who knows its hash. */
const SETS = 2 ** 17;
/** Entries of a set; the oldest makes room. Of 300,000 keys a second, 1 in 300 is forgotten within a second. */
const WAYS = 8;

export interface RefusalTimes {
  /** Milliseconds, or undefined: not refused, or forgotten. One in a billion other keys is taken for this one. */
  get(keyHash: string): number | undefined;
  set(keyHash: string, atMs: number): void;
  delete(keyHash: string): void;
}

/** Made when the first key is refused: most servers never see a flood. */
export function createRefusalTimes(): RefusalTimes {
  let table: ReturnType<typeof createTable> | undefined;
  return {
    get: (keyHash) => table?.get(keyHash),
    set(keyHash, atMs) {
      table ??= createTable();
      table.set(keyHash, atMs);
    },
    delete: (keyHash) => table?.delete(keyHash),
  };
}

function createTable(): RefusalTimes {
  const tags = new Uint32Array(SETS * WAYS);
  const times = new Float64Array(SETS * WAYS); // 0: free

  const setOf = (keyHash: string) => (Number.parseInt(keyHash.slice(0, 8), 16) % SETS) * WAYS;
  const tagOf = (keyHash: string) => Number.parseInt(keyHash.slice(8, 16), 16);

  function find(keyHash: string): number | undefined {
    const first = setOf(keyHash);
    const tag = tagOf(keyHash);
    for (let slot = first; slot < first + WAYS; slot += 1) {
      if (tags[slot] === tag && times[slot] !== 0) return slot;
    }
    return undefined;
  }

  function oldestIn(first: number): number {
    let oldest = first;
    for (let slot = first + 1; slot < first + WAYS; slot += 1) {
      if ((times[slot] ?? 0) < (times[oldest] ?? 0)) oldest = slot;
    }
    return oldest;
  }

  return {
    get(keyHash) {
      const slot = find(keyHash);
      return slot === undefined ? undefined : times[slot];
    },
    set(keyHash, atMs) {
      const slot = find(keyHash) ?? oldestIn(setOf(keyHash));
      tags[slot] = tagOf(keyHash);
      times[slot] = atMs;
    },
    delete(keyHash) {
      const slot = find(keyHash);
      if (slot !== undefined) times[slot] = 0;
    },
  };
}
