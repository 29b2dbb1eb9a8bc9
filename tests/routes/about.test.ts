// GET /: says where a leaked key is ended and where a request came from, and repeats nothing that is no address.

import { expect, test } from 'bun:test';
import { createTestApp } from '../support/test-app.ts';

test('all transports are named', async () => {
  await using app = await createTestApp();
  const text = await (await fetch(app.url)).text();
  expect(text).toMatch(/\/mcp +MCP.*\n.*\/sse +MCP.*\n.*\/tools\/<tool_name> the same tools over plain HTTP/);
});

test('whoever finds a key is told where to end it', async () => {
  await using app = await createTestApp();
  const text = await (await fetch(app.url)).text();
  const address = /^ +(\S+) +ends a leaked API key/m.exec(text)?.[1] ?? app.url;
  const { key } = await app.createKey('alice');
  expect((await fetch(address, { method: 'POST', body: new URLSearchParams({ token: key }) })).status).toBe(200);
  expect((await app.call('get_data', {}, { 'x-api-key': key })).status).toBe(401);
});

test('the address is that of the client as budgets see it', async () => {
  await using app = await createTestApp();
  await using behind = await createTestApp({ env: { TRUST_PROXY: '1' } });
  const seen = async (url: string, forwarded: string) => {
    const text = await (await fetch(url, { headers: { 'x-forwarded-for': forwarded } })).text();
    return /^Your address, as this server sees it: (.*)$/m.exec(text)?.[1];
  };
  expect(await seen(app.url, '192.0.2.1')).toBe('127.0.0.1');
  expect(await seen(behind.url, '192.0.2.1')).toBe('192.0.2.1');
  expect(await seen(behind.url, '[2001:db8::7]:1234')).toBe('2001:db8::7');
  for (const text of ['sk_test_1', 'a name', '<b>', '1.2.3.4 5']) expect(await seen(behind.url, text)).toBe('unknown');
});
