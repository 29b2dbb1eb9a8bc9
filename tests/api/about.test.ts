// GET /: says where a leaked key is ended and where a request came from, and repeats nothing that is no address.

import { expect, test } from 'bun:test';
import { createTestApp, sharedApp } from '../support/test-app.ts';

const app = await sharedApp();

test('whoever finds a key is told where to end it', async () => {
  const text = await (await fetch(app.url)).text();
  const address = /^ +(\S+) +ends a leaked API key/m.exec(text)?.[1] ?? app.url;
  const { key } = await app.createKey('alice');
  expect((await fetch(address, { method: 'POST', body: new URLSearchParams({ token: key }) })).status).toBe(200);
  expect((await app.useKey(key)).status).toBe(401);
});

test('the address is that of the client as budgets see it', async () => {
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

test('a browser gets the same text as a page with links, everybody else plain text', async () => {
  const get = (accept?: string) => fetch(app.url, { headers: accept === undefined ? {} : { accept } });
  const text = await (await get('text/plain')).text();
  for (const accept of [undefined, '*/*', 'text/*', 'application/json', 'text/html;q=0, */*']) {
    const response = await get(accept);
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(response.headers.get('vary')).toBe('Accept');
    expect(await response.text()).toBe(text);
  }
  const page = await get('text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8');
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'; /);
  const html = await page.text();
  const [, shown = ''] = /<main>(.*)<\/main>/s.exec(html) ?? [];
  const unlinked = shown.replace(/<\/?(a|h1|pre)\b[^>]*>/g, '');
  expect(unlinked.replaceAll('&lt;', '<').replaceAll('&gt;', '>')).toBe(text);
  const links = [...html.matchAll(/<a href="([^"]+)"/g)].map(([, link = '']) => link);
  expect(links).toContain(`${app.url}/keys`);
  for (const link of links) expect((await fetch(link)).status).toBe(200);
});
