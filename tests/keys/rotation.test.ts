// Rotation as programs live through it: under load, and with responses that get lost.

import { expect, test } from 'bun:test';
import { rotateUnderLoad } from '../lab/load/rotation-load.ts';
import { rows } from '../support/everything.ts';
import { seeded } from '../support/model-user.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

const MINUTE_MS = 60_000;
const TURNS = 200;

test('100 rotations of keys in use: no call is refused', async () => {
  const counts = await rotateUnderLoad(5);
  expect(Object.keys(counts)).toEqual(['200']);
  expect(counts[200]).toBeGreaterThan(100); // at least one for each rotation
}, 180_000);

test('8 rotations of a key at once: each has a secret, and one of them is good beside the old one', async () => {
  await using app = await createTestApp();
  const { id, key } = await app.createKey('alice');
  const alice = await bearer(app, 'alice');
  const responses = await Promise.all(
    Array.from({ length: 8 }, () => app.call('rotate_api_key', { keyId: id }, alice)),
  );
  expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
  const statuses = await Promise.all(responses.map(async ({ body }) => (await app.useKey(body.key)).status));
  expect(statuses.filter((status) => status === 200)).toHaveLength(1);
  expect((await app.useKey(key)).status).toBe(200);
});

test.each(rows([1, 2], 1))(
  'a program that rotates for hours and loses every other response always has one or two working secrets (seed %d)',
  async (seed) => {
    await using app = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '0' } });
    const random = seeded(seed);
    const isLost = () => random() < 0.5;
    const { id, key } = await app.createKey('alice');
    /** What the program knows, newest first: it forgets a secret only when it has seen a newer one working. */
    let known = [key];
    /** All that were ever made, lost ones too, but for the next one: to look at that would use it. */
    const made = [key];
    let unused: string | null = null;
    let rotations = 0;

    const works = async (secret: string) => (await app.useKey(secret)).status === 200;

    for (let turn = 0; turn < TURNS; turn += 1) {
      app.clock.advance(Math.round(random() * 4 * MINUTE_MS));
      const alice = await bearer(app, 'alice');
      if (random() < 0.3) {
        const overlapHours = 1;
        const { status, body } = await app.call('rotate_api_key', { keyId: id, overlapHours }, alice);
        expect([200, 409]).toContain(status);
        if (status === 200) {
          rotations += 1;
          if (unused !== null) made.push(unused); // replaced
          unused = body.key;
          if (!isLost()) known = [body.key, ...known];
        }
      }
      const [newest = '', ...older] = known;
      if (await works(newest)) {
        if (newest === unused) {
          made.push(newest);
          unused = null;
        }
        if (!isLost()) known = [newest, ...older.slice(0, 1)];
      } else {
        const good = await Promise.all(older.map(works));
        expect(good).toContain(true);
      }
      const accepted = (await Promise.all(made.map(works))).filter(Boolean).length + (unused === null ? 0 : 1);
      expect(accepted).toBeLessThanOrEqual(2);
      expect(accepted).toBeGreaterThan(0);
    }
    expect(rotations).toBeGreaterThan(5);
  },
  180_000,
);
