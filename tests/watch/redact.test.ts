// What the log shows of a text that a stranger sent.

import { expect, test } from 'bun:test';
import { excerptOf } from '../../src/watch/redact.ts';

const HASH = '0123456789abcdef'.repeat(4);
const SHOWN_CHARS = 100;

test.each([
  ['a hash', HASH],
  ['a key', `sk_live_${'A1b2'.repeat(16)}`],
  ['a token', `eyJhbGciOiJIUzI1NiJ9.${'x'.repeat(40)}.${'y'.repeat(40)}`],
])('%s that an excerpt would cut in two is taken out whole, wherever it begins', (_what, secret) => {
  for (let before = 0; before < SHOWN_CHARS; before += 1) {
    const shown = excerptOf(`${'-'.repeat(before)} ${secret} and what follows`);
    expect(shown.length).toBeLessThanOrEqual(SHOWN_CHARS);
    expect({ before, shown }).toEqual({
      before,
      shown: `${'-'.repeat(before)} [redacted] and what follows`.slice(0, SHOWN_CHARS),
    });
  }
});
