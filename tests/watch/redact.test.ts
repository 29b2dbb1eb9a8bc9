// What the log shows of a text that a stranger sent.

import { expect, test } from 'bun:test';
import { createTestApp } from '../support/test-app.ts';

const HASH = '0123456789abcdef'.repeat(4);
const SHOWN_CHARS = 100;

test.each([
  ['a hash', HASH],
  ['a key', `sk_live_${'A1b2'.repeat(16)}`],
  ['a token', `eyJhbGciOiJIUzI1NiJ9.${'x'.repeat(40)}.${'y'.repeat(40)}`],
])('%s that an excerpt would cut in two is taken out whole, wherever it begins', async (_what, secret) => {
  await using app = await createTestApp();
  for (let before = 0; before < SHOWN_CHARS; before += 1) {
    const origin = `-${'-'.repeat(before)} ${secret} and what follows`;
    expect((await fetch(`${app.url}/mcp`, { headers: { origin } })).status).toBe(403);
    app.clock.advance(1000); // a line a second for each address
  }
  const lines = (await app.log()).filter(({ event }) => event === 'request refused');
  expect(lines.map(({ origin }) => origin)).toEqual(
    Array.from({ length: SHOWN_CHARS }, (_, before) =>
      `-${'-'.repeat(before)} [redacted] and what follows`.slice(0, SHOWN_CHARS),
    ),
  );
});
