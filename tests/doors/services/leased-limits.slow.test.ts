// An owner's limit, and two services that let his thousand keys in from memory, at several costs: how much is let in, when
// somebody is refused, and what is counted in the end.

import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createVerifier, type Verifier } from '../../../src/doors/services/verifier.ts';
import { awayFromMidnight, busiestRate } from '../../support/callers.ts';
import { type Servers, startServers } from '../../support/checked-service.ts';
import { rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import type { Runtime } from '../../support/server-process.ts';
import { waitForWithin } from '../../support/wait-for.ts';

const KEYS = 1000;
const SERVICES = 2;
const CALLERS_EACH = 4;
const COSTS = [1, 1, 3, 7];
/** Each caller ends after so many refusals: then all keys have been tried at each service. */
const REFUSALS = 500;
const PAUSE_MS = 1;
/** Between two processes more is let in the faster calls come: slowly enough, the bound is near the limit. */
const CALM_PAUSE_MS = 20;
/** No limit but the owner's, and no check is refused because a busy machine holds a process up. */
const CALM = { RATE_LIMIT_REQUESTS: '0', REVOCATION_LAG_MAX_MS: '60000' };

const keys = Array.from({ length: KEYS }, (_, at) => `sk_test_${at.toString(16).padStart(64, '0')}`);

interface Customer {
  readonly at: Servers;
  readonly verifiers: readonly Verifier[];
}

async function startCustomer(started: AsyncDisposableStack, runtimes: readonly Runtime[], limit: number) {
  const at = started.use(await startServers('embedded', runtimes, CALM));
  const lines = keys.map((key) =>
    JSON.stringify({ userId: 'acme', name: 'a key', keyHash: Bun.SHA256.hash(key, 'hex'), scopes: ['read'] }),
  );
  const file = join(temporaryFolder(), 'keys.jsonl');
  writeFileSync(file, lines.join('\n'));
  await at.keys('import', file);
  await at.keys('owner', 'acme', '--limit', `${limit}/366d`);
  const verifiers: Verifier[] = [];
  for (let service = 0; service < SERVICES; service += 1) {
    const { id, key } = await at.createKey(`operator ${service}`, ['introspect']);
    verifiers.push(createVerifier({ url: at.url, id, key, onError: () => undefined }));
  }
  return { at, verifiers };
}

const anyOf = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)] as T;

interface Letting {
  /** When each unit was let in. */
  readonly atMs: number[];
  /** What a refused check cost, and the most that can have been let in when it was refused. */
  readonly refused: { readonly cost: number; readonly accepted: number }[];
}

async function untilRefused({ verifiers }: Customer, pauseMs: number): Promise<Letting> {
  const seen: Letting = { atMs: [], refused: [] };
  let accepted = 0;
  let underWay = 0;
  async function call(verifier: Verifier): Promise<void> {
    for (let refusals = 0; refusals < REFUSALS; ) {
      const cost = anyOf(COSTS);
      underWay += cost;
      const result = await verifier.verify(anyOf(keys), { cost });
      underWay -= cost;
      if (result.ok) {
        accepted += cost;
        seen.atMs.push(...Array(cost).fill(performance.now()));
        await Bun.sleep(pauseMs);
      } else {
        expect(result.status).toBe(429);
        refusals += 1;
        seen.refused.push({ cost, accepted: accepted + underWay });
        await Bun.sleep(PAUSE_MS);
      }
    }
  }
  await Promise.all(verifiers.flatMap((verifier) => Array.from({ length: CALLERS_EACH }, () => call(verifier))));
  return seen;
}

const PLACES = [
  ['one process', ['bun'], 3200, PAUSE_MS],
  ['two processes', ['bun', 'bun'], 16_000, CALM_PAUSE_MS],
] as const;
test.each(rows(PLACES, 1))(
  '%s: two services let in no more than the limit and what is lent, and refuse nobody before',
  async (_, runtimes, limit, pauseMs) => {
    await using started = new AsyncDisposableStack();
    await awayFromMidnight();
    const customer = await startCustomer(started, runtimes, limit);
    const { atMs, refused } = await untilRefused(customer, pauseMs);
    const lent = (SERVICES * limit) / 32;
    const count = runtimes.length;
    const shared = count === 1 ? 0 : 2 * count * (limit / 32 + busiestRate([{ atMs }]) * 0.5);
    expect(shared).toBeLessThan(limit / 2); // else the pace is such that the bound says little
    expect(atMs.length).toBeLessThanOrEqual(limit + lent + shared);
    for (const { cost, accepted } of refused) expect(accepted).toBeGreaterThanOrEqual(limit - (cost - 1) - lent);
    for (const verifier of customer.verifiers) await verifier.close();
  },
  180_000,
);

test('what was let in is what is counted, of each key', async () => {
  await using started = new AsyncDisposableStack();
  await awayFromMidnight();
  const customer = await startCustomer(started, ['bun', 'bun'], 320_000);
  const units = new Map<string, number>();
  await Promise.all(
    customer.verifiers.map(async (verifier) => {
      for (let check = 0; check < 5000; check += 1) {
        const [key, cost] = [anyOf(keys.slice(0, 50)), anyOf(COSTS)];
        const result = await verifier.verify(key, { cost });
        if (!result.ok) throw new Error(result.problem.code);
        units.set(result.keyId, (units.get(result.keyId) ?? 0) + cost);
        if (check % 10 === 0) await Bun.sleep(PAUSE_MS);
      }
    }),
  );
  for (const verifier of customer.verifiers) await verifier.close();
  const letIn = Object.fromEntries([...units].sort());
  let counted = {};
  await waitForWithin(30_000, async () => {
    counted = await customer.at.usesOf('acme');
    return Bun.deepEquals(counted, letIn);
  }).catch(() => {});
  expect(counted).toEqual(letIn);
}, 180_000);
