// `mcp-key-server/verifier` wherever keys may be: the bound holds on a primary, on replicas of it, and on Deno.

import { describe, expect, test } from 'bun:test';
import { createVerifier } from '../../../src/doors/services/verifier.ts';
import { lateEndings, startServers } from '../../support/checked-service.ts';
import { rows } from '../../support/everything.ts';

const BOUND_MS = 1000;
const TIMES = 20;
const AT_ONCE = 5;

describe.each(
  rows(
    [
      ['a file', 'embedded', ['bun', 'bun']],
      ['a file, on Deno', 'embedded', ['deno', 'bun']],
      ['a primary', 'remote', ['bun', 'bun']],
      ['replicas', 'replica', ['bun', 'bun']],
      ['replicas, on Deno', 'replica', ['deno', 'deno']],
    ] as const,
    0,
  ),
)('with keys in %s', (_, mode, runtimes) => {
  test(
    `each way of ending a key is noticed within the bound, ${TIMES} times each`,
    async () => {
      await using at = await startServers(mode, runtimes, { RATE_LIMIT_REQUESTS: '0' });
      const { id, key } = await at.createKey('operator', ['introspect']);
      const verifier = createVerifier({ url: at.url, id, key, onError: () => undefined });
      const late: [string, number][] = [];
      const letsIn = async (made: string) => (await verifier.verify(made, { scopes: ['read'] })).ok;
      for (let time = 0; time < TIMES; time += AT_ONCE) {
        const all = Array.from({ length: AT_ONCE }, () => lateEndings(at, BOUND_MS, letsIn));
        late.push(...(await Promise.all(all)).flat());
      }
      expect(late).toEqual([]);
      await verifier.close();
    },
    TIMES * 30_000,
  );
});
