// What others may do to the page /keys: through its address, as its issuer, around its window, and with bad timing.

import { expect, test } from 'bun:test';
import type { Page, Route } from 'playwright-core';
import { confirm, describeInBrowser, press } from '../../support/browser.ts';
import { lenientIssuer } from '../../support/lenient-issuer.ts';
import { ADMINS } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { adminLink, appAt, appForBrowser, follow, link, withKeysPage } from './keys-page.ts';

/** Holds the responses to requests for `tool`; each is sent when it is called for. */
async function held(page: Page, tool: string): Promise<(() => Promise<void>)[]> {
  const routes: (() => Promise<void>)[] = [];
  await page.route(`**/tools/${tool}`, async (route: Route) => {
    const response = await route.fetch(); // what was true when it was asked
    routes.push(() => route.fulfill({ response }));
  });
  return routes;
}

/** Fills in the form of a new key, and sends it. */
async function create(page: Page, name: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Name' }).fill(name);
  await page.getByRole('textbox', { name: /scopes/i }).fill('read');
  await press(page, 'Create key');
}

describeInBrowser('what comes with the address', (browser) => {
  const SCRIPT = '<img src=x onerror=alert(1)><script>alert(2)</script>';
  const ADDRESSES: readonly (readonly [at: string, said: string])[] = [
    [`#token=${encodeURIComponent(SCRIPT)}`, 'This is not a token.'],
    ['#token=abc.def.ghi', 'Invalid or expired user token'],
    [`?error=x&error_description=${encodeURIComponent(SCRIPT)}`, 'does not belong to'], // which nobody asked for
    ['?code=stolen&state=x', 'does not belong to'],
  ];

  test('is never markup, asks nothing of the issuer, and leaves the address', async () => {
    await using issuer = await lenientIssuer();
    await using app = await appAt(issuer);
    for (const [at, said] of ADDRESSES) {
      await withKeysPage(browser(), app, { at, issuer: issuer.url }, async ({ page, requests }) => {
        await page.getByRole('alert').getByText(said).waitFor();
        expect(page.url()).toBe(`${app.url}/keys`);
        expect(await page.locator('img').count()).toBe(0);
        expect(requests.filter((request) => request.includes(issuer.url))).toEqual([]);
      });
    }
  });
});

describeInBrowser('other windows', (browser) => {
  test('can neither frame the page, nor reach it when they open it', async () => {
    await using app = await appForBrowser();
    const token = await app.token('alice');
    await using other = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () =>
        new Response(
          `<iframe src="${app.url}/keys#token=${token}"></iframe>
<button onclick="opened = window.open('${app.url}/keys#token=${token}')">open</button>`,
          { headers: { 'content-type': 'text/html' } },
        ),
    });
    const context = await browser().newContext();
    try {
      const page = await context.newPage();
      await page.goto(`http://127.0.0.1:${other.port}/`);
      expect(await page.frames()[1]?.getByRole('heading').count()).toBe(0);
      const popup = context.waitForEvent('page');
      await page.getByRole('button').click();
      const opened = await popup;
      await opened.getByText('Signed in as alice').waitFor();
      expect(await opened.evaluate(() => opener)).toBeNull();
      expect(await page.evaluate('opened.closed')).toBe(true); // all it learns
    } finally {
      await context.close();
    }
  });

  test('are not listened to', async () => {
    await using app = await appForBrowser();
    const { id } = await app.createKey('alice', { name: 'of alice' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, requests }) => {
      await page.getByText('1 key', { exact: true }).waitFor();
      await page.evaluate((keyId) => {
        const params = { name: 'delete_api_key', arguments: { keyId } };
        postMessage({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, '*');
      }, id);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText('1 key', { exact: true }).waitFor();
      expect(requests.filter((request) => request.includes('delete'))).toEqual([]);
    });
  });
});

describeInBrowser('bad timing', (browser) => {
  test('two clicks create one key', async () => {
    await using app = await appForBrowser();
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page, requests }) => {
      await page.getByRole('textbox', { name: 'Name' }).fill('clicked twice');
      await page.getByRole('textbox', { name: /scopes/i }).fill('read');
      await page.getByRole('button', { name: 'Create key' }).dblclick();
      await page.getByRole('heading', { name: 'clicked twice' }).waitFor();
      await page.getByText('1 key', { exact: true }).waitFor();
      expect(requests.filter((request) => request.endsWith('/create_api_key'))).toHaveLength(1);
    });
  });

  test('a key that comes when the token has expired meanwhile is shown', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'another' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await press(page, 'Create a key');
      const responses = await held(page, 'create_api_key');
      await create(page, 'in time');
      await waitFor(() => responses.length === 1);
      app.clock.advance(2 * 3_600_000);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByRole('alert').getByText('Sign in again').waitFor();
      await responses[0]?.();
      await page.getByRole('heading', { name: 'in time' }).waitFor();
    });
  });

  test('a key that is revoked while the list is on its way is shown as revoked', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'of alice' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await page.getByRole('button', { name: 'More about of alice' }).click();
      await page.getByRole('button', { name: 'Revoke of alice' }).click();
      const lists = await held(page, 'list_api_keys');
      await page.getByRole('button', { name: 'Refresh' }).click();
      await waitFor(() => lists.length === 1);
      await page.getByRole('group', { name: 'Revoke of alice?' }).getByRole('button', { name: 'Revoke' }).click();
      await waitFor(() => lists.length === 2); // asked again
      await page.getByRole('button', { name: 'Delete of alice' }).and(page.locator(':focus')).waitFor();
      for (const send of lists) await send();
      await page.getByRole('button', { name: 'Refresh', exact: true }).waitFor();
      expect(await page.locator('.state').textContent()).toBe('Revoked');
      expect(await page.locator(':focus').getAttribute('aria-label')).toBe('Delete of alice');
    });
  });

  test('a new key stays where it is shown when the list can not be refreshed', async () => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'of alice' });
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await confirm(page, 'Rotate', 'of alice');
      const box = page.getByRole('group', { name: 'New key of of alice' });
      await box.getByRole('button', { name: 'Show key' }).click();
      const detail = 'The key store is out of reach; try again';
      await page.route('**/tools/list_api_keys', (route) => route.fulfill({ status: 503, json: { detail } }));
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByRole('alert').getByText(`The list could not be refreshed. ${detail}`).waitFor();
      expect(await box.getByRole('group', { name: 'API key' }).locator('code').textContent()).toMatch(/^sk_test_/);
      await page.unroute('**/tools/list_api_keys');
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText('could not be refreshed').waitFor({ state: 'hidden' });
      expect(await box.getByRole('group', { name: 'API key' }).locator('code').textContent()).toMatch(/^sk_test_/);
    });
  });

  test('a list that comes late is not shown as that of another view', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('alice', { name: 'of alice' });
    await app.createKey('carol', { name: 'of carol' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await page.getByText('1 key', { exact: true }).waitFor();
      const lists = await held(page, 'admin_list_keys');
      await page.getByRole('button', { name: 'All keys' }).click();
      await waitFor(() => lists.length === 1);
      await page.getByRole('button', { name: 'Your keys' }).click();
      await page.getByRole('button', { name: 'Rotate of carol' }).waitFor();
      await lists[0]?.();
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByRole('button', { name: 'Refresh', exact: true }).waitFor();
      expect(await page.locator('.name').allTextContents()).toEqual(['of carol']);
    });
  });

  test('a link of somebody else in the middle of it all leaves nothing of the one before', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('alice', { name: 'of alice' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await page.getByRole('button', { name: 'All keys' }).click();
      await page.getByLabel('Owner, exactly').fill('alice');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Keys of alice' }).waitFor();
      await page.getByRole('button', { name: 'Revoke all keys' }).click();
      await follow(page, await link(app, 'bob'));
      await page.getByRole('button', { name: 'Sign in as bob' }).click();
      await page.getByText('Signed in as bob').waitFor();
      await page.getByText('No API keys yet').waitFor();
      expect(await page.getByRole('button', { name: /^(All keys|Revoke all)/ }).count()).toBe(0);
      expect(await page.getByRole('search').count()).toBe(0);
    });
  });

  test('who is no admin any more after signing in again sees their own keys', async () => {
    await using app = await appForBrowser({ env: ADMINS });
    await app.createKey('alice', { name: 'of alice' });
    await withKeysPage(browser(), app, await adminLink(app), async ({ page }) => {
      await page.getByRole('button', { name: 'All keys' }).click();
      await page.getByText('of alice').first().waitFor();
      app.clock.advance(2 * 3_600_000);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByRole('alert').getByText('Sign in again').waitFor();
      await follow(page, await link(app, 'carol'));
      await page.getByText('No API keys yet').waitFor();
      expect(await page.getByRole('search').count()).toBe(0);
    });
  });

  test('away and back, or reloaded, the page has no key and nobody is signed in', async () => {
    await using app = await appForBrowser();
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await create(page, 'shown');
      await press(page, 'Show key');
      await page.goto('about:blank');
      await page.goBack();
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
      await follow(page, await link(app, 'alice'));
      await press(page, 'Create a key');
      await create(page, 'shown');
      await press(page, 'Show key');
      // What a browser does that keeps the page, to come back to.
      await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })));
      expect(await page.locator('code').count()).toBe(0);
      await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })));
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    });
  });
});

describeInBrowser('a link that somebody else made', (browser) => {
  test('and that is forged, nonsense or over neither ends the session nor takes a new key away', async () => {
    await using app = await appForBrowser();
    await withKeysPage(browser(), app, await link(app, 'alice'), async ({ page }) => {
      await create(page, 'shown');
      await press(page, 'Show key');
      const over = { exp: Math.floor(app.clock.nowMs() / 1000) - 60 };
      for (const [token, said] of [
        [`${(await app.token('mallory')).slice(0, -6)}forged`, /not signed for this server/],
        ['<b>', /This is not a token/],
        [await app.token('mallory', over), /has expired/],
      ] as const) {
        await page.evaluate((hash) => location.assign(hash), `#token=${encodeURIComponent(token)}`);
        await page.getByRole('status').getByText(said).waitFor();
        await page.getByText('you stay signed in').waitFor();
        expect(await page.getByRole('group', { name: 'API key' }).locator('code').textContent()).toMatch(/^sk_test_/);
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.getByText('you stay signed in').waitFor({ state: 'hidden' });
        await page.getByText('Signed in as alice').waitFor();
      }
    });
  });
});
