// The page /keys beside an app that signs its own people in (KEYS_PAGE_SIGN_IN): with the recipes, and with links that
// somebody else has made.

import { expect, test } from 'bun:test';
import type { Browser, Page } from 'playwright-core';
import { describeInBrowser, takePage } from '../../support/browser.ts';
import { register } from '../../support/hand-over.ts';
import { askForKey } from '../../support/key-request.ts';
import { ADMINS, createTestApp, type Env, type TestApp } from '../../support/test-app.ts';
import { beside } from './customer-app.ts';
import { adminLink, appForBrowser, historyOf, said, withKeysPage } from './keys-page.ts';

const signInButton = (page: Page) => page.getByRole('button', { name: /^Sign in at 127\.0\.0\.1:\d+$/ });

describeInBrowser('beside an app', (browser) => {
  test.each(['express', 'bun'] as const)(
    'whose sign-in is made with %s, a person goes there and on with what waits here',
    async (file) => {
      await using there = await beside(file, { OAUTH_DEVICE: '1', OAUTH_REDIRECTS: 'https://client.example/back' });
      const { app, customers } = there;
      const { user_code: code } = (await askForKey(app)).body;
      const client = await register(app, ['https://client.example/back']);
      const connect = `#connect=${encodeURIComponent(client.page().search.slice(1))}`;
      await withKeysPage(browser(), app, { at: `#ask=${code}`, issuer: customers.url }, async ({ page, context }) => {
        expect(await page.getByLabel('Or paste a user token').isVisible()).toBe(false);
        await signInButton(page).click();
        await page.getByRole('link', { name: 'bob' }).click();
        await page.getByRole('alert').getByText('did not sign you in: Your plan has no API keys yet.').waitFor();
        await context.clearCookies();
        await signInButton(page).click();
        await page.getByRole('link', { name: 'alice' }).click();
        await page.getByText(code, { exact: true }).waitFor(); // the request still waits
        await page.getByText('Signed in as alice').waitFor();
        expect(page.url()).toBe(`${app.url}/keys`);
        await page.evaluate((hash) => location.assign(hash), connect);
        await page.reload(); // signed out, and the connection is asked for anew
        await page.evaluate((hash) => location.assign(hash), connect);
        await signInButton(page).click(); // the app knows who it is
        await page.getByRole('heading', { name: /handed to client.example/ }).waitFor();
        expect((await historyOf(page)).join(' ')).not.toMatch(/token|#/);
        const foreign = await fetch(`${customers.url}/keys-sign-in?return=https://evil.example/keys&state=s`);
        expect(foreign.status).toBe(400);
        await context.clearCookies();
      });
    },
  );
});

/** Runs `use` on the page beside an app, where a program's request waits for somebody to sign in there. */
async function whileAsked(browser: Browser, use: (page: Page) => Promise<void>): Promise<void> {
  await using there = await beside('bun', { OAUTH_DEVICE: '1' });
  const { app, customers } = there;
  await withKeysPage(browser, app, { at: '#ask=BCDF-GHJK', issuer: customers.url }, async ({ page, context }) => {
    await use(page);
    await context.clearCookies();
  });
}

describeInBrowser('a sign-in at an app', (browser) => {
  test('that is left by the browser’s button, and gone on with, signs in and goes on with what waits', () =>
    whileAsked(browser(), async (page) => {
      await signInButton(page).click();
      await page.getByRole('link', { name: 'alice' }).waitFor();
      await page.goBack();
      await page.getByText('whether a program gets the key that it waits for').waitFor();
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
      await page.goForward();
      await page.getByRole('link', { name: 'alice' }).click();
      await page.getByText('Signed in as alice').waitFor();
      await page.getByText('BCDF-GHJK', { exact: true }).waitFor();
    }));

  test('goes on with a link that came after the button was pressed, before the app has answered', () =>
    whileAsked(browser(), async (page) => {
      await signInButton(page).evaluate((button) => {
        (button as HTMLElement).click();
        location.assign('#ask=LMNP-QRST');
      });
      await page.getByRole('link', { name: 'alice' }).click();
      await page.getByText('Signed in as alice').waitFor();
      await page.getByText('LMNP-QRST', { exact: true }).waitFor();
    }));

  test('goes on with a link whose event still waits when the page goes', () =>
    whileAsked(browser(), async (page) => {
      const stored = await signInButton(page).evaluate((button) => {
        (button as HTMLElement).click();
        location.assign('#ask=LMNP-QRST');
        dispatchEvent(new PageTransitionEvent('pagehide'));
        return Object.values(sessionStorage).join();
      });
      expect(stored).toContain('"LMNP-QRST"');
      await page.getByRole('link', { name: 'alice' }).click();
      await page.getByText('LMNP-QRST', { exact: true }).waitFor();
    }));

  test('is over with it: a page that the browser has cached, and reloads, stores nothing of it again', () =>
    whileAsked(browser(), async (page) => {
      await signInButton(page).click();
      await page.getByRole('link', { name: 'alice' }).click();
      await page.getByText('Signed in as alice').waitFor();
      const stored = await page.evaluate(() => {
        for (const persisted of [true, false]) dispatchEvent(new PageTransitionEvent('pagehide', { persisted }));
        return sessionStorage.length;
      });
      expect(stored).toBe(0);
    }));
});

interface Situation {
  readonly env?: Env;
  /** Who is signed in, and what waits, before the link is opened. */
  readonly before?: (page: Page, app: TestApp) => Promise<unknown>;
  /** Nothing of this is lost. */
  readonly stays: (page: Page) => Promise<unknown>;
}

const linkOf = async (app: TestApp, sub: string, claims = {}) => `#token=${await app.token(sub, claims)}`;
const open = (page: Page, hash: string) => page.evaluate((to) => location.assign(to), hash);
const asAlice = async (page: Page, app: TestApp) => {
  await open(page, await linkOf(app, 'alice'));
  await page.getByText('Signed in as alice').waitFor();
};
const heading = (name: string | RegExp) => (page: Page) => page.getByRole('heading', { name }).waitFor();

const SITUATIONS: Readonly<Record<string, Situation>> = {
  'nobody is signed in, beside an app': {
    env: { KEYS_PAGE_SIGN_IN: 'https://app.example/keys' },
    stays: (page) => page.getByRole('button', { name: 'Sign in at app.example' }).waitFor(),
  },
  'somebody is signed in, and a new key is shown': {
    async before(page, app) {
      await asAlice(page, app);
      await page.getByRole('textbox', { name: 'Name' }).fill('ci');
      await page.getByRole('checkbox', { name: 'read' }).check();
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.getByRole('button', { name: 'Show key' }).click();
    },
    async stays(page) {
      await page.getByText('Signed in as alice').waitFor();
      await page
        .getByRole('group', { name: 'API key' })
        .getByText(/^sk_test_\w{64}$/)
        .waitFor();
    },
  },
  'an admin looks at owners': {
    env: ADMINS,
    async before(page, app) {
      await open(page, (await adminLink(app)).at);
      await page.getByRole('heading', { name: 'Owners' }).waitFor();
    },
    stays: heading('Owners'),
  },
  'a connection waits': {
    env: { OAUTH_REDIRECTS: 'https://client.example/back' },
    async before(page, app) {
      const client = await register(app, ['https://client.example/back']);
      await open(page, `#connect=${encodeURIComponent(client.page().search.slice(1))}`);
    },
    stays: (page) => page.getByText('whether client.example gets the key').waitFor(),
  },
  'a program waits': {
    env: { OAUTH_DEVICE: '1' },
    before: (page) => open(page, '#ask=BCDF-GHJK'),
    stays: (page) => page.getByText('whether a program gets the key').waitFor(),
  },
};

describeInBrowser('a link of somebody else', (browser) => {
  test.each(Object.entries(SITUATIONS))(
    'asks first where %s, and loses nothing',
    async (_, { env = {}, before, stays }) => {
      await using app = await appForBrowser({ env });
      await withKeysPage(browser(), app, {}, async ({ page, requests }) => {
        await heading('Sign in')(page);
        await before?.(page, app);
        const link = await linkOf(app, 'mallory', { email: 'mallory@evil.example' });
        await open(page, link);
        await heading('Sign in as mallory?')(page);
        await page.getByText('(mallory@evil.example)').waitFor();
        await page.getByRole('button', { name: 'No', exact: true }).click();
        await page.getByRole('heading', { name: 'Sign in as mallory?' }).waitFor({ state: 'detached' });
        await stays(page);
        expect(await page.evaluate(() => document.activeElement?.tagName)).not.toBe('BODY');
        expect((await historyOf(page)).join(' ')).not.toContain('token');
        const token = link.slice('#token='.length);
        for (const place of [...requests, await app.logText()]) expect(place).not.toContain(token);
      });
    },
  );

  test('without a connection changes nothing; one of the very person asks nothing; an error without a state says nothing', async () => {
    await using app = await appForBrowser();
    await withKeysPage(browser(), app, { quiet: true }, async ({ page, context }) => {
      await asAlice(page, app);
      const other = await linkOf(app, 'mallory');
      const forged = (await linkOf(app, 'alice')).replace(/\.[^.]*$/, '.c2lnbmF0dXJl');
      for (const opened of [other, forged]) {
        await context.setOffline(true);
        await open(page, opened);
        await said(page, 'The link that was opened signs nobody in, and you stay signed in.');
        await context.setOffline(false);
        await page.getByRole('button', { name: 'Refresh' }).click();
        await said(page, 'Refreshed at');
      }
      await page.getByRole('textbox', { name: 'Name' }).fill('half typed');
      await open(page, await linkOf(app, 'alice', { iat: 1 }));
      await open(page, '#error=send+me+your+key&state=x');
      await page.waitForFunction(() => location.hash === '');
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('half typed');
      expect(await page.getByText('send me your key').count()).toBe(0);
    });
  });
});

describeInBrowser('the way to the app, beside a new key', (browser) => {
  test('asks first, as the key would be lost, and asks no more once that is left, or what led there', async () => {
    await using app = await appForBrowser({ env: { KEYS_PAGE_SIGN_IN: 'https://app.example/keys' } });
    const at = await linkOf(app, 'alice');
    await withKeysPage(browser(), app, { at, quiet: true }, async ({ page }) => {
      const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
      const question = page.getByRole('group', { name: 'Leave the new key?' });
      await press('Sign in as alice');
      await page.getByRole('textbox', { name: 'Name' }).fill('ci');
      await page.getByRole('checkbox', { name: 'read' }).check();
      await press('Create key');
      await page.getByRole('group', { name: 'New key of ci' }).waitFor();
      await open(page, await linkOf(app, 'mallory'));
      await press('Sign in at app.example');
      await question.waitFor();
      await press('No');
      app.clock.advance(7_200_000);
      await press('Refresh');
      await heading('Sign in')(page);
      expect(await question.count()).toBe(0);
      await press('Sign in at app.example');
      await question.waitFor();
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Cancel');
      await page.keyboard.press('Escape');
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Sign in at app.example');
      await page.getByRole('group', { name: 'New key of ci' }).waitFor();
    });
  });
});

describeInBrowser('in production', (browser) => {
  test('strangers are told whom to ask, and no command', async () => {
    const PUBLIC_URL = 'https://keys.example';
    await using app = await createTestApp({ env: { NODE_ENV: 'production', TRUST_PROXY: '1', PUBLIC_URL } });
    await using taken = await takePage(browser());
    await taken.page.route(`${PUBLIC_URL}/**`, async (route) => {
      const headers = { 'x-forwarded-proto': 'https' };
      const response = await fetch(`${app.url}/keys`, { headers });
      const body = await response.text();
      expect(body).not.toContain('bun run token');
      await route.fulfill({ status: response.status, headers: Object.fromEntries(response.headers), body });
    });
    await taken.page.goto(`${PUBLIC_URL}/keys`);
    await taken.page.getByText('Ask whoever runs this server for a link').waitFor();
    expect(await taken.page.getByLabel('Or paste a user token').isVisible()).toBe(false);
    await taken.page.getByText('Other ways to sign in').click();
    await taken.page.getByLabel('Or paste a user token').waitFor();
  });
});
