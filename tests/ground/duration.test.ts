// Spans of time as people write them: in the window of a key's limit, and of the server's.

import { expect, test } from 'bun:test';
import { parseConfig } from '../../src/start/package/index.ts';
import { bearer, listedKeys, sharedApp } from '../support/test-app.ts';

const app = await sharedApp({ env: { RATE_LIMIT_REQUESTS: '0' } }); // which bounds no limit of a key

const limitOf = (window: string) => ({ name: 'n', scopes: [], rateLimit: { requests: 1, window } });

test.each([
  ['1s', 1000, '1s'],
  ['60s', 60_000, '1m'],
  ['90s', 90_000, '90s'],
  ['3600s', 3_600_000, '1h'],
  ['90m', 5_400_000, '90m'],
  ['24h', 86_400_000, '1d'],
  ['7d', 604_800_000, '7d'],
  ['31622400s', 31_622_400_000, '366d'],
])('%s is %d ms, and written %s', async (text, windowMs, written) => {
  const rateLimit = { windowS: windowMs / 1000 };
  expect(parseConfig({ RATE_LIMIT_WINDOW: text })).toMatchObject({ ok: true, value: { keyDefaults: { rateLimit } } });
  await app.createKey(text, limitOf(text));
  expect(await listedKeys(app, text)).toMatchObject([{ rateLimit: { requests: 1, window: written } }]);
});

test.each(['', '0s', '1', 'h', '1.5h', '-1h', '1w', '1 h', '1h ', '1H', '1000ms', '100000000s'])(
  '%p is none',
  async (text) => {
    if (text !== '') expect(parseConfig({ RATE_LIMIT_WINDOW: text }).ok).toBe(false); // an empty variable is not set
    const { body } = await app.call('create_api_key', limitOf(text), await bearer(app, 'alice'));
    expect(body.code).toBe('invalid_input');
  },
);
