// Keys that are used all the time while they are rotated again and again.

import { bearer, createTestApp, type TestApp } from '../../support/test-app.ts';

const KEYS = 20;
const HOUR_MS = 3_600_000;

/** Rotates each of 20 keys `rounds` times, and returns the statuses of all calls meanwhile, with how often each came. */
export async function rotateUnderLoad(rounds: number): Promise<Record<number, number>> {
  await using app = await createTestApp({ store: 'embedded', env: { RATE_LIMIT_REQUESTS: '0', LOG_LEVEL: 'error' } });
  const counts: Record<number, number> = {};
  const keys = await Promise.all(Array.from({ length: KEYS }, () => startCaller(app, counts)));
  for (let round = 0; round < rounds; round += 1) {
    const alice = await bearer(app, 'alice');
    await Promise.all(
      keys.map(async (key) => {
        const { body } = await app.call('rotate_api_key', { keyId: key.id, overlapHours: 1 }, alice);
        await key.switchTo(body.key);
      }),
    );
    app.clock.advance(HOUR_MS + 1);
  }
  await Promise.all(keys.map(({ stop }) => stop()));
  return counts;
}

/** A program that uses its key one call after the other. */
async function startCaller(app: TestApp, counts: Record<number, number>) {
  const made = await app.createKey('alice');
  let { key } = made;
  let stopped = false;
  let used = () => {};
  const running = (async () => {
    while (!stopped) {
      const presented = key;
      const { status } = await app.useKey(presented);
      counts[status] = (counts[status] ?? 0) + 1;
      if (presented === key) used();
    }
  })();
  return {
    id: made.id,
    /** Resolves once the new key has been used. */
    switchTo(newKey: string): Promise<void> {
      key = newKey;
      return new Promise((resolve) => {
        used = resolve;
      });
    },
    stop(): Promise<void> {
      stopped = true;
      return running;
    },
  };
}
