// The page that asks for a key, in a real browser: to another origin, over a callback that redirects again, and for
// everybody who reads it.

import { expect, test } from 'bun:test';
import type { Browser, Page } from 'playwright-core';
import { describeInBrowser, takePage } from '../support/browser.ts';
import { type Registered, register } from '../support/hand-over.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';

const ENV = { OAUTH_REDIRECTS: 'loopback https://client.example/back cursor://anysphere.cursor-mcp/oauth/callback' };

interface Place extends AsyncDisposable {
  readonly app: TestApp;
  readonly client: Registered;
  readonly key: string;
  readonly page: Page;
  /** What the client's own server was asked for: method, URL, and headers. */
  readonly asked: { method: string; url: URL; headers: Headers }[];
}

/** A client with a server of its own, whose callback redirects once more, to yet another origin. */
async function place(browser: Browser): Promise<Place> {
  const app = await createTestApp({ env: ENV });
  const { key } = await app.createKey('alice');
  const asked: Place['asked'] = [];
  const serve = (respond: (url: URL) => Response) =>
    Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch(request) {
        const url = new URL(request.url);
        asked.push({ method: request.method, url, headers: new Headers(request.headers) });
        return respond(url);
      },
    });
  const last = serve(() => new Response('<title>connected</title>', { headers: { 'content-type': 'text/html' } }));
  const callback = serve(({ search }) => Response.redirect(`http://localhost:${last.port}/done${search}`, 302));
  const client = await register(app, [`http://127.0.0.1:${callback.port}/callback`]);
  const taken = await takePage(browser);
  return {
    app,
    client,
    key,
    page: taken.page,
    asked,
    async [Symbol.asyncDispose]() {
      await taken[Symbol.asyncDispose]();
      await Promise.all([last.stop(true), callback.stop(true)]);
      await app.close();
    },
  };
}

describeInBrowser('the page that asks for a key', (browser) => {
  test('a person hands over a key with the keyboard; the key is in no URL, referrer or history entry', async () => {
    await using there = await place(browser());
    const { app, client, key, page, asked } = there;
    const violations: string[] = [];
    page.on('console', (message) => violations.push(message.text()));
    await page.goto(client.page().href);
    expect(await page.locator('.host').textContent()).toBe('a program on this computer');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('key');

    await page.keyboard.type(`sk_test_${'0'.repeat(64)}`);
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').textContent()).toBe('Invalid or expired API key');
    expect(await page.getByLabel('API key').inputValue()).toBe('');

    await page.getByLabel('API key').fill(`  ${key} `);
    await page.keyboard.press('Tab');
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Hand over the key');
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => url.pathname === '/done');
    const pages = asked.filter(({ url }) => url.pathname !== '/favicon.ico');
    expect(pages.map(({ method, url }) => `${method} ${url.pathname}`)).toEqual(['GET /callback', 'GET /done']);
    const [first] = pages;
    expect(first?.url.searchParams.get('state')).toBe('of the client');
    for (const { url, headers } of asked) {
      expect(url.href).not.toContain(key);
      expect(headers.get('referer') ?? '').not.toContain(app.url);
      expect(headers.get('cookie')).toBeNull();
    }
    const code = first?.url.searchParams.get('code') ?? '';
    const redirect = `${first?.url.origin}/callback`;
    expect((await client.redeem(code, { redirect_uri: redirect })).body.access_token).toBe(key);
    const entries = await (await page.context().newCDPSession(page)).send('Page.getNavigationHistory');
    expect(JSON.stringify(entries)).not.toContain(key);
    expect(violations.filter((text) => /Content Security Policy|CSP/i.test(text))).toEqual([]);
  }, 180_000);

  test('cancelled, nothing is handed over', async () => {
    await using there = await place(browser());
    await there.page.goto(there.client.page().href);
    await there.page.getByRole('button', { name: 'Cancel' }).click();
    await there.page.waitForURL((url) => url.pathname === '/done');
    const { url } = there.asked[0] ?? { url: new URL('http://none') };
    expect([url.searchParams.get('error'), url.searchParams.get('code')]).toEqual(['access_denied', null]);
  }, 180_000);
});

test('the page’s policy is as strict as a form allows, and nothing keeps it', async () => {
  await using app = await createTestApp({ env: ENV });
  const { headers } = await fetch((await register(app)).page());
  expect(headers.get('content-security-policy')).toMatch(
    /^default-src 'none'; style-src( 'sha256-[\w+/]{43}=')+; base-uri 'none'; frame-ancestors 'none'$/,
  );
  expect(headers.get('referrer-policy')).toBe('same-origin');
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.get('set-cookie')).toBeNull();
});

test('the page leads to where keys are made, if there is such a page', async () => {
  await using app = await createTestApp({ env: ENV });
  expect(await (await fetch((await register(app)).page())).text()).toContain(`href="${app.url}/keys#connect=`);
  await using without = await createTestApp({ env: { ...ENV, KEYS_PAGE: '0' } });
  expect(await (await fetch((await register(without)).page())).text()).not.toContain('/keys"');
});
