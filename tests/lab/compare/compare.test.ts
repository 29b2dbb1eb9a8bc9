// The short form of run.ts: this server says the same wherever it runs.

import { expect, test } from 'bun:test';
import { rows } from '../../support/everything.ts';
import { compare } from './compare.ts';
import { type Other, startBoth } from './servers.ts';

const REQUESTS = 200;
/** Health says where the keys are. */
const STORE = /: body\.store\.(?:mode|replica)$/;

async function kindsBeside(other: Other): Promise<string[]> {
  await using both = await startBoth(other, {});
  const plan = { seed: 1, requests: REQUESTS, sameRuntime: other.runtime === 'bun' };
  const { requests, kinds } = await compare(both.theirs, both.ours, plan);
  expect(requests).toBe(REQUESTS);
  return [...kinds.keys()];
}

test.each<[string, Other]>(
  rows(
    [
      ['itself', { runtime: 'bun', store: 'embedded' }],
      ['one on Deno', { runtime: 'deno', store: 'embedded' }],
      ['one on a remote database', { runtime: 'bun', store: 'remote' }],
      ['one with a replica', { runtime: 'bun', store: 'replica' }],
    ],
    1,
  ),
)(
  'beside %s it says the same, byte for byte',
  async (_name, other) => {
    expect((await kindsBeside(other)).filter((kind) => !STORE.test(kind))).toEqual([]);
  },
  180_000,
);

test('what another setting changes is found', async () => {
  const kinds = await kindsBeside({ runtime: 'bun', store: 'embedded', env: { KEY_QUOTA: '100000/month' } });
  expect(kinds).toContain('POST /mcp tools/call list_api_keys, 200: body.result.structuredContent.keys[].quota');
  expect(kinds).toContain('POST /tools/get_data, 403: header ratelimit');
}, 180_000);
