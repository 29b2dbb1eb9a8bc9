// Guesses from one address as fast as an attacker can make them. Honest keys from the same address, which the server
// hasn't seen yet, must get in beside them, at the first try.

import { expect, test } from 'bun:test';
import { userOn } from '../../support/client.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { median, msOf } from '../bench/measure.ts';
import { guess } from './attack.ts';

const CONNECTIONS = 200;
const PER_S_MAX = 16_000;
const BUDGET = 1000;
const HONEST = 20;
const BETWEEN_HONEST_MS = 100;
/** Each, at the median; on a machine that is not busy far less. */
const HONEST_MS_MAX = 1000;

test.each([
  ['single calls', false],
  ['MCP batches', true],
])(
  'honest keys are served at the first try, below a second, beside a flood of guesses in %s',
  async (_, inBatches) => {
    await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET }, onStdout: () => {} });
    const alice = await userOn(server);
    const keys: string[] = [];
    while (keys.length < HONEST) keys.push((await alice.create()).body.key);
    const attacker = await guess(server.url, { connections: CONNECTIONS, perSMax: PER_S_MAX, inBatches });
    await waitFor(() => attacker.answered > 2 * BUDGET);
    const served = await Promise.all(
      keys.map(async (key, n) => {
        await Bun.sleep(n * BETWEEN_HONEST_MS);
        return msOf(async () => expect(await alice.use(key)).toBe(200));
      }),
    );
    attacker.end();
    expect(median(served)).toBeLessThan(HONEST_MS_MAX);
  },
  180_000,
);
