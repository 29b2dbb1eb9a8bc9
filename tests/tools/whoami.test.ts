// whoami: what a key is told about itself; and SAMPLE_TOOL, which takes the sample tool off.

import { expect, test } from 'bun:test';
import { testClock } from '../support/clock.ts';
import { createTestApp, readResponse } from '../support/test-app.ts';

test('says whose key it is and what is left of its limit, without a scope', async () => {
  await using app = await createTestApp({ clock: testClock(Date.UTC(2026, 0, 2)) });
  const { id, key, expiresAt } = await app.createKey('alice', { name: 'ci "1"', scopes: [], expiresInDays: 1 });
  await app.useKey(key);
  app.clock.advance(1500);
  const { status, headers, body } = await app.call('whoami', {}, { 'x-api-key': key });
  expect(status).toBe(200);
  expect(body).toEqual({
    keyId: id,
    name: 'ci "1"',
    owner: 'alice',
    scopes: [],
    expiresAt,
    rateLimit: { requests: 1000, windowSeconds: 3600, remaining: 998, resetSeconds: 3599 },
    quota: null,
    ownerRateLimit: null,
    ownerQuota: null,
    metadata: null,
    workload: null,
    usesToday: 2,
  });
  expect(headers.get('ratelimit')).toBe('"key";r=998;t=3599');
});

test('SAMPLE_TOOL=0 takes get_data off, and nothing else', async () => {
  const offered = async (env: Record<string, string>) => {
    await using app = await createTestApp({ env });
    const { body } = await readResponse(await fetch(`${app.url}/openapi.json`));
    const { key } = await app.createKey('alice');
    return { paths: Object.keys(body.paths), status: (await app.useKey(key)).status };
  };
  const all = await offered({});
  expect(all.status).toBe(200);
  const without = all.paths.filter((path) => path !== '/tools/get_data');
  expect(without.length).toBe(all.paths.length - 1);
  expect(await offered({ SAMPLE_TOOL: '0' })).toEqual({ paths: without, status: 404 });
});
