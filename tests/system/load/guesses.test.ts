// Guesses from one address as fast as an attacker can make them, half of them keys that come back exactly when told.
// Honest keys from the same address, which the server hasn't seen yet, must get in when they come back as told.

import { expect, test } from 'bun:test';
import { median } from '../../bench/measure.ts';
import { callOver, userHeaders } from '../../support/client.ts';
import { openSocket, postText } from '../../support/http-socket.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const CONNECTIONS = 200;
/** Shared by everything that runs here, the attacker too: what it reaches depends on the machine. */
const PER_S_MAX = 16_000;
const TOLD_TO_WAIT_MS = 1000;
const HONEST = 20;
const BETWEEN_HONEST_MS = 100;

/** The attacker's next key: one that was told to come back a second ago, else a new one. */
function attackersKeys() {
  const told: { readonly key: string; readonly atMs: number }[] = [];
  let returned = 0;
  const next = () => {
    const nowMs = performance.now();
    const oldest = told[returned];
    if (oldest !== undefined && nowMs - oldest.atMs >= TOLD_TO_WAIT_MS) {
      returned += 1;
      return oldest.key;
    }
    const key = `sk_test_${told.length.toString(16).padStart(64, '0')}`;
    told.push({ key, atMs: nowMs });
    return key;
  };
  return { next, returned: () => returned };
}

/** Asks on many connections until `end` is called, which tells how many were answered. */
async function attack(url: string) {
  const { next, returned } = attackersKeys();
  const startedMs = performance.now();
  let sent = 0;
  let answered = 0;
  const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, () => openSocket(url)));
  for (const socket of sockets) {
    const ask = () => {
      if (socket.destroyed) return;
      const aheadMs = (sent / PER_S_MAX) * 1000 - (performance.now() - startedMs);
      if (aheadMs > 5) return void setTimeout(ask, aheadMs);
      sent += 1;
      socket.write(postText('/tools/get_data', '{}', { 'X-API-Key': next() }));
    };
    socket.on('data', (chunk) => {
      if (chunk.at(-1) !== 0x7d) return; // all responses are JSON objects
      answered += 1;
      ask();
    });
    ask();
  }
  return {
    returned,
    end() {
      for (const socket of sockets) socket.destroy();
      return answered;
    },
  };
}

/** How often an honest caller had to ask, and for how long. It does what Retry-After says. */
async function askUntilServed(url: string, key: string): Promise<{ tries: number; ms: number }> {
  const startedMs = performance.now();
  for (let tries = 1; ; tries += 1) {
    const { status, headers } = await callOver(url, 'get_data', {}, { 'x-api-key': key });
    if (status === 200) return { tries, ms: performance.now() - startedMs };
    if (status !== 429) throw new Error(`an honest key got ${status}`);
    await Bun.sleep(Number(headers.get('retry-after')) * 1000);
  }
}

test('honest keys are told to wait once, for a second, beside a flood of guesses that come back as told', async () => {
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET }, onStdout: () => {} });
  const alice = await userHeaders('alice');
  const keys: string[] = [];
  for (let n = 0; n < HONEST; n += 1) {
    keys.push((await callOver(server.url, 'create_api_key', { name: 'honest', scopes: ['read'] }, alice)).body.key);
  }
  const attacker = await attack(server.url);
  await waitFor(() => attacker.returned() > CONNECTIONS); // the budget of the address is used up by then
  const served = await Promise.all(
    keys.map(async (key, n) => {
      await Bun.sleep(n * BETWEEN_HONEST_MS);
      return askUntilServed(server.url, key);
    }),
  );
  expect(attacker.end()).toBeGreaterThan(3000); // far more than the budget
  expect(Math.max(...served.map(({ tries }) => tries))).toBeLessThanOrEqual(2);
  expect(median(served.map(({ ms }) => ms))).toBeLessThan(2 * TOLD_TO_WAIT_MS); // each, on a machine that is not busy
}, 60_000);
