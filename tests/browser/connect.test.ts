// The page that asks for a key, in a real browser: to another origin, over a callback that redirects again, and for
// everybody who reads it.

import { expect, test } from 'bun:test';
import { describeInBrowser, takePage } from '../support/browser.ts';
import { register } from '../support/hand-over.ts';
import { createTestApp } from '../support/test-app.ts';
import { clientServer, historyOf } from './page/keys-page.ts';

const ENV = { OAUTH_REDIRECTS: 'loopback https://client.example/back cursor://anysphere.cursor-mcp/oauth/callback' };

describeInBrowser('the page that asks for a key', (browser) => {
  test('a person hands over a key with the keyboard; the key is in no URL, referrer or history entry; or nothing, cancelled', async () => {
    await using app = await createTestApp({ env: ENV });
    const { key } = await app.createKey('alice');
    // The callback redirects once more, to yet another origin.
    await using last = clientServer();
    const done = last.callback.replace('127.0.0.1', 'localhost').replace('callback', 'done');
    await using server = clientServer(({ search }) => Response.redirect(done + search, 302));
    const client = await register(app, [server.callback]);
    await using taken = await takePage(browser());
    const { page } = taken;
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
    const asked = [...server.asked, ...last.asked];
    expect(asked.map(({ url }) => url.pathname)).toEqual(['/callback', '/done']);
    for (const { url, referrer, cookie } of asked) {
      expect(url.href).not.toContain(key);
      expect(referrer ?? '').not.toContain(app.url);
      expect(cookie).toBeNull();
    }
    const back = server.asked[0]?.url.searchParams;
    expect(back?.get('state')).toBe('of the client');
    expect((await client.redeem(back?.get('code') ?? '')).body.access_token).toBe(key);
    expect((await historyOf(page)).join(' ')).not.toContain(key);

    await page.goto(client.page().href);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.waitForURL((url) => url.pathname === '/done');
    const cancelled = server.asked[1]?.url.searchParams;
    expect([cancelled?.get('error'), cancelled?.get('code')]).toEqual(['access_denied', null]);
    expect(violations.filter((text) => /Content Security Policy|CSP/i.test(text))).toEqual([]);
  });

  test('a state with line breaks and NUL, which a form changes, comes back as it was: with a key, and cancelled', async () => {
    await using app = await createTestApp({ env: ENV });
    const { key } = await app.createKey('alice');
    await using server = clientServer();
    const client = await register(app, [server.callback]);
    await using taken = await takePage(browser());
    const { page } = taken;
    const state = ' a\nb\rc\r\nd\u0000e\tf\u0001"<é&state=g';
    for (const press of ['Hand over the key', 'Cancel']) {
      await page.goto(client.page({ state }).href);
      await page.getByLabel('API key').fill(`sk_test_${'0'.repeat(64)}`);
      await page.keyboard.press('Enter'); // the page again
      await page.getByRole('alert').waitFor();
      await page.getByLabel('API key').fill(key);
      await page.getByRole('button', { name: press }).click();
      await page.waitForURL((url) => url.pathname === '/callback');
    }
    const back = server.asked.map(({ url }) => url.searchParams);
    expect(back.map((query) => query.getAll('state'))).toEqual([[state], [state]]);
    expect(back.map((query) => [query.has('code'), query.get('error')])).toEqual([
      [true, null],
      [false, 'access_denied'],
    ]);
  });
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
