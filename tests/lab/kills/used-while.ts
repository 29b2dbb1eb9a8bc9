// How long a secret lives on that has ended: it is used all the time on every server of a cluster while one of them ends it.

import { useKey } from '../../support/cluster.ts';

/** A secret that is good so long after its end is good for ever. */
const GIVEN_UP_MS = 20_000;

export interface Used {
  /** From the end to the last use anywhere that was a success; negative: that was so long before it. */
  readonly lastSuccessMs: number;
  /** Statuses that must not be: other than 200 before, and 401 after. */
  readonly odd: readonly number[];
  /** Uses in all, and those that got 503, which is right on a machine slower than the bound, but must stay rare. */
  readonly uses: number;
  readonly unavailable: number;
}

/** How many callers of each server use it how often, and for how long before its end. */
interface Pace {
  readonly callers: number;
  readonly everyMs: number;
  readonly beforeMs: number;
}

/** Uses `key` until everybody refuses it. `end` resolves once that is acknowledged; with a number: when it will be. */
export async function usedWhile(
  servers: readonly { readonly url: string }[],
  key: string,
  end: () => Promise<unknown>,
  { callers, everyMs, beforeMs }: Pace,
): Promise<Used> {
  let endedAtMs = Number.POSITIVE_INFINITY;
  let lastAtMs = Number.NEGATIVE_INFINITY; // when it was asked for: its response may lie here for a while
  let isEnding = false;
  let [uses, unavailable] = [0, 0];
  const odd: number[] = [];
  async function use(server: { readonly url: string }): Promise<void> {
    for (; ; await Bun.sleep(everyMs)) {
      const askedAtMs = performance.now();
      const status = await useKey(server, key);
      uses += 1;
      if (status === 200) lastAtMs = Math.max(lastAtMs, askedAtMs);
      else if (status === 503) unavailable += 1;
      else if (status !== 401 || !isEnding) odd.push(status);
      if (askedAtMs > endedAtMs + GIVEN_UP_MS || (status === 401 && performance.now() >= endedAtMs)) return;
    }
  }
  const all = servers.flatMap((server) => Array.from({ length: callers }, () => use(server)));
  await Bun.sleep(beforeMs);
  isEnding = true;
  const endsAtMs = await end();
  endedAtMs = typeof endsAtMs === 'number' ? endsAtMs : performance.now();
  await Promise.all(all);
  return { lastSuccessMs: lastAtMs - endedAtMs, odd, uses, unavailable };
}
