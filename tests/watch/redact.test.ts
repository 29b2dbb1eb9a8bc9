// What the log shows of a text that a stranger sent.

import { expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import { createTestApp, TEST_SECRET } from '../support/test-app.ts';

const HASH = '0123456789abcdef'.repeat(4);
const SHOWN_CHARS = 100;

test.each([
  ['a hash', HASH],
  ['a key', `sk_live_${'A1b2'.repeat(16)}`],
  ['a token', `eyJhbGciOiJIUzI1NiJ9.${'x'.repeat(40)}.${'y'.repeat(40)}`],
  ['a token with line breaks', `ewogICJhbGciOiAiSFMyNTYiCn0.ewogIC${'x'.repeat(40)}.${'y'.repeat(40)}`],
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

test.each([' ', '\n', '\r\n', '\t'])(
  'a user token with %j after its braces is one, wherever it is sent',
  async (space) => {
    await using app = await createTestApp({ env: { ACCESS_LOG: '1', TRUST_PROXY: '1' } });
    const encoded = (part: object) => Buffer.from(JSON.stringify(part).replace('{', `{${space}`)).toString('base64url');
    const endsAtS = Math.floor(app.clock.nowMs() / 1000) + 60;
    const signed = `${encoded({ alg: 'HS256' })}.${encoded({ sub: 'alice', exp: endsAtS })}`;
    const token = `${signed}.${createHmac('sha256', TEST_SECRET).update(signed).digest('base64url')}`;
    expect((await app.call('list_api_keys', {}, { authorization: `Bearer ${token}` })).status).toBe(200);
    const headers = { 'x-api-key': token, 'x-forwarded-uri': `/a/${token}/b` };
    const refused = await fetch(`${app.url}/verify`, { headers });
    expect(await refused.json()).toMatchObject({ detail: 'This tool needs an API key; a user token was sent' });
    const [line] = (await app.log()).filter(({ route }) => route === '/verify');
    expect(line?.path).toBe('/a/[redacted]/b');
  },
);

test('words that begin as a token does stay', async () => {
  await using app = await createTestApp();
  const origin = 'https://ewoodcutters.example eyAbcdefghijk.elsewhere.example';
  await fetch(`${app.url}/mcp`, { headers: { origin } });
  expect((await app.log()).find(({ event }) => event === 'request refused')?.origin).toBe(origin);
});
