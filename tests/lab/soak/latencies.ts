// Latencies counted in buckets that grow by 2 %: any number of them in the memory of a few hundred counters.

const SMALLEST_MS = 0.02;
const GROWTH = 1.02;
/** Up to 1,000 s. */
const BUCKETS = 900;

export type Latencies = ReturnType<typeof createLatencies>;

export function createLatencies() {
  const buckets = new Uint32Array(BUCKETS);
  let count = 0;
  return {
    add(ms: number) {
      const bucket = Math.ceil(Math.log(Math.max(ms, SMALLEST_MS) / SMALLEST_MS) / Math.log(GROWTH));
      const index = Math.min(bucket, BUCKETS - 1);
      buckets[index] = (buckets[index] ?? 0) + 1;
      count += 1;
    },
    /** The latency below which `part` of all stay, to 2 %; 0 when there are none. */
    quantileMs(part: number) {
      let left = Math.ceil(count * part);
      for (const [index, inBucket] of buckets.entries()) {
        left -= inBucket;
        if (left <= 0) return count === 0 ? 0 : SMALLEST_MS * GROWTH ** index;
      }
      return 0;
    },
    get count() {
      return count;
    },
  };
}
