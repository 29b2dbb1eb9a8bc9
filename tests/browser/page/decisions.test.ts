// What people come to the page /keys to decide: a key for a connection, and a key for a program without a browser.

import { expect, test } from 'bun:test';
import type { Page } from 'playwright-core';
import { describeInBrowser, stopClock, takePage } from '../../support/browser.ts';
import { CALLBACK, register } from '../../support/hand-over.ts';
import { askForKey, pollForKey } from '../../support/key-request.ts';
import { lenientIssuer } from '../../support/lenient-issuer.ts';
import { listedKeys, type TestApp } from '../../support/test-app.ts';
import { appAt, appForBrowser, clientServer, follow, historyOf, link, pasteToken, withKeysPage } from './keys-page.ts';

const CONNECT = { OAUTH_REDIRECTS: 'loopback https://client.example/back' };
const DEVICE = { OAUTH_DEVICE: '1' };

describeInBrowser('a key for a connection', (browser) => {
  test('is made by a click on /authorize, a sign-in and a click, with what the person chose', async () => {
    await using app = await appForBrowser({ env: CONNECT });
    await using server = clientServer();
    const client = await register(app, [server.callback]);
    await using taken = await takePage(browser());
    const { page } = taken;
    await page.goto(client.page({ scope: 'read write delegate' }).href);
    await page.getByRole('link', { name: 'Make a key for this connection' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(page.url()).toBe(`${app.url}/keys`);
    await pasteToken(page, await app.token('alice'));
    await page.getByRole('heading', { name: /handed to a program on this computer/ }).waitFor();
    await page.getByText(`The key is good for ${app.url} alone.`).waitFor();
    const scope = (name: string) => page.getByRole('checkbox', { name, exact: true });
    expect([await scope('read').isChecked(), await scope('write').isChecked()]).toEqual([true, true]);
    const delegate = page.getByRole('checkbox', { name: 'delegate (may make keys that end with it)' });
    expect(await delegate.isChecked()).toBe(false);
    expect(await page.getByLabel('Expires').inputValue()).toBe('90');
    await scope('write').uncheck();
    await page.getByRole('textbox', { name: 'Name' }).fill('my client');
    await page.getByRole('button', { name: 'Make the key and hand it over' }).click();
    await page.getByText('connected').waitFor();
    expect(server.asked.map(({ referrer }) => referrer)).toEqual([null]);
    const code = server.asked[0]?.url.searchParams.get('code') ?? '';
    expect(server.asked[0]?.url.searchParams.get('state')).toBe('of the client');
    expect(await listedKeys(app, 'alice')).toEqual([]); // it is made when it is fetched
    const { body } = await client.redeem(code);
    expect((await app.useKey(String(body.access_token))).status).toBe(200);
    expect(await listedKeys(app, 'alice')).toMatchObject([{ name: 'my client', scopes: ['read'], resource: app.url }]);
    expect((await historyOf(page)).join(' ')).not.toMatch(/connect=|token/);

    await page.goto(`${app.url}/keys${(await link(app)).at}`);
    await page.getByText(`for ${app.url}`).waitFor(); // the list says what it is for
  });

  test('survives the sign-in at an issuer; scopes that the person may not give are not ticked, and named', async () => {
    await using issuer = await lenientIssuer({ claims: { may: 'read' } });
    await using app = await appAt(issuer, { ...CONNECT, JWT_SCOPE_CLAIM: 'may' });
    const client = await register(app, ['https://client.example/back']);
    const at = `#connect=${encodeURIComponent(client.page({ scope: 'read admin' }).search.slice(1))}`;
    await withKeysPage(browser(), app, { at, issuer: issuer.url }, async ({ page }) => {
      await page.getByRole('button', { name: /^Sign in with/ }).click();
      await page.getByRole('heading', { name: /handed to client.example/ }).waitFor();
      expect(await page.getByRole('checkbox', { name: 'read', exact: true }).isChecked()).toBe(true);
      await page.getByText('what you may not give: admin').waitFor();
      expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('client.example');
    });
  });

  test('has of what the client asked for only what a key can have; the rest is named, and hinders nobody', async () => {
    await using app = await appForBrowser({ env: CONNECT });
    await using server = clientServer();
    const client = await register(app, [server.callback]);
    const query = client.page({ scope: 'read a"b \u202eabc' }).search.slice(1);
    await using taken = await takePage(browser());
    const { page } = taken;
    await page.goto(`${app.url}/keys#connect=${encodeURIComponent(query)}`);
    await pasteToken(page, await app.token('alice'));
    const refused = page.getByText('It also asked for what you may not give:').locator('bdi'); // its direction is its own
    expect(await refused.textContent()).toBe('a"b \u202eabc');
    await page.getByRole('button', { name: 'Make the key and hand it over' }).click();
    await page.getByText('connected').waitFor();
    const { body } = await client.redeem(server.asked[0]?.url.searchParams.get('code') ?? '');
    expect(body.scope).toBe('read');
  });

  test('says who vouches for its client: whoever listed its document, or nobody', async () => {
    const env = { OAUTH_CLIENTS: 'known https://vendor.example/*', OAUTH_REDIRECTS: 'https://client.example/back' };
    await using app = await appForBrowser({ env });
    const ofNobody = (host: string) => `It says that it is ${host}, which nobody can prove.`;
    for (const [id, says] of [
      ['https://claude.ai/oauth/mcp-oauth-client-metadata', 'Identified by claude.ai.'],
      ['https://vendor.example/a/b.json', 'Identified by vendor.example.'],
      ['https://vendor.example/a/b/c.json', ofNobody('vendor.example')],
      ['https://claude.ai/oauth/mcp-oauth-client-metadata2', ofNobody('claude.ai')],
      ['https://claudeXai/oauth/mcp-oauth-client-metadata', ofNobody('claudexai')],
    ] as const) {
      const query = new URLSearchParams({ client_id: id, redirect_uri: 'https://client.example/back' });
      const at = `#connect=${encodeURIComponent(query.toString())}`;
      await withKeysPage(browser(), app, { at }, async ({ page }) => {
        await pasteToken(page, await app.token('alice'));
        await page.getByRole('heading', { name: /handed to client.example/ }).waitFor();
        await page.getByText(says).waitFor();
      });
    }
  });

  test('that is not to be had says why, and leads back to where a key can be pasted', async () => {
    await using app = await appForBrowser({ env: CONNECT });
    const client = await register(app, ['https://client.example/back']);
    const query = client.page({ redirect_uri: 'https://evil.example/<b>' }).search.slice(1);
    const at = `#connect=${encodeURIComponent(query)}`;
    await withKeysPage(browser(), app, { at }, async ({ page }) => {
      await page.getByText('whether evil.example gets the key that it waits for').waitFor();
      await pasteToken(page, await app.token('alice'));
      await page.getByRole('heading', { name: /evil.example/ }).waitFor();
      await page.getByRole('textbox', { name: 'Other scopes' }).fill('read');
      await page.getByRole('button', { name: 'Make the key and hand it over' }).click();
      await page.getByRole('alert').getByText('not one that the program has registered').waitFor();
      const back = page.getByRole('link', { name: 'Paste a key instead, or cancel' });
      expect(await back.getAttribute('href')).toBe(`${app.url}/authorize?${query}`);
      expect(await listedKeys(app, 'alice')).toEqual([]);
    });
  });

  test('has no limit, quota or end that its link names: the person left them out', async () => {
    await using app = await appForBrowser({ env: CONNECT });
    await using server = clientServer();
    const client = await register(app, [server.callback]);
    const query = `${client.page().search.slice(1)}&rateLimit=1/1h&quota=1/day&expiresInDays=1`;
    await using taken = await takePage(browser());
    const { page } = taken;
    await page.goto(`${app.url}/keys#connect=${encodeURIComponent(query)}`);
    await pasteToken(page, await app.token('alice'));
    await page.getByLabel('Expires').selectOption('never');
    await page.getByRole('checkbox', { name: 'read', exact: true }).check();
    await page.getByRole('button', { name: 'Make the key and hand it over' }).click();
    await page.getByText('connected').waitFor();
    expect((await client.redeem(server.asked[0]?.url.searchParams.get('code') ?? '')).status).toBe(200);
    const [key] = await listedKeys(app, 'alice');
    expect(key).toMatchObject({ expiresAt: null });
    expect(key).not.toHaveProperty('rateLimit');
    expect(key).not.toHaveProperty('quota');
  });

  test('that is asked for by two clients in one link goes to neither', async () => {
    await using app = await appForBrowser({ env: CONNECT });
    await using server = clientServer();
    const shown = await register(app, ['https://client.example/back']);
    const other = await register(app, [server.callback]);
    const query = `${shown.page().search.slice(1)}&${other.page().search.slice(1)}`;
    const at = `#connect=${encodeURIComponent(query)}`;
    await withKeysPage(browser(), app, { at }, async ({ page }) => {
      await page.getByText('The request has a parameter twice').waitFor();
      await pasteToken(page, await app.token('alice'));
      await page.getByRole('heading', { name: 'New key' }).waitFor();
      await page.evaluate((hash) => location.assign(hash), at);
      await page.getByRole('status').getByText('The request has a parameter twice').waitFor();
      expect(await page.getByRole('button', { name: 'Make the key and hand it over' }).count()).toBe(0);
    });
    expect(server.asked).toEqual([]);
  });

  test('has nothing that was typed and ticked for the client of another link', async () => {
    await using app = await appForBrowser({ env: CONNECT });
    const open = async (page: Page, scope: string, callback: string) => {
      const client = await register(app, [callback]);
      await follow(page, { at: `#connect=${encodeURIComponent(client.page({ scope }).search.slice(1))}` });
      await page
        .getByRole('heading', { name: `handed to ${callback.includes('client') ? 'client' : 'a program'}` })
        .waitFor();
    };
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      const name = page.getByRole('textbox', { name: 'Name' });
      await name.fill('my own');
      await open(page, 'read', CALLBACK);
      await name.fill('the first');
      await page.getByRole('textbox', { name: 'Other scopes' }).fill('admin');
      await page.getByRole('checkbox', { name: 'read', exact: true }).uncheck();
      await open(page, 'read', 'https://client.example/back');
      expect(await name.inputValue()).toBe('client.example');
      expect(await page.getByRole('textbox', { name: 'Other scopes' }).inputValue()).toBe('');
      expect(await page.getByRole('checkbox', { name: 'read', exact: true }).isChecked()).toBe(true);
      await page.getByRole('button', { name: 'Not now' }).click();
      expect(await name.inputValue()).toBe('my own');
    });
  });
});

describeInBrowser('a key for a program without a browser', (browser) => {
  const ask = async (app: TestApp) => (await askForKey(app, { client_name: 'backup <b>', scope: 'read deploy' })).body;

  test('is made with what the person chose, once the code is typed', async () => {
    await using app = await appForBrowser({ env: DEVICE });
    const asked = await ask(app);
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByRole('link', { name: 'A program asks for a key' }).click();
      await page.getByLabel('The code that the program shows').fill('bcdf-ghjk');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').waitFor(); // another code
      await page.getByLabel('The code that the program shows').fill(asked.user_code.toLowerCase());
      await page.keyboard.press('Enter');
      await page.getByText('“backup <b>”, in its own words').waitFor();
      await page.getByText('127.0.0.1, just now').waitFor();
      for (const name of ['read', 'deploy']) {
        expect(await page.getByRole('checkbox', { name, exact: true }).isChecked()).toBe(false);
      }
      expect(await page.getByLabel('Expires').inputValue()).toBe('30');
      await page.getByRole('checkbox', { name: 'deploy' }).check();
      await stopClock(page);
      await page.getByRole('button', { name: 'Make the key', exact: true }).click();
      await page.getByText('The program gets its key when it asks next').waitFor();
      app.clock.advance(10_000);
      const { access_token: key, scope } = (await pollForKey(app, asked.device_code)).body;
      expect([key.startsWith('sk_test_'), scope]).toEqual([true, 'deploy']);
      const made = page.getByRole('button', { name: 'Rotate backup <b>' });
      // By itself: it looks every five seconds, and each look takes as long as the machine needs.
      while (!(await made.isVisible())) await page.clock.runFor(1000);
      await page.getByText('The list has a new key.').waitFor();
      expect(await page.content()).not.toContain(key);
    });
  });

  test('stays in its tab when a link signs in, in another one or there, which is asked first', async () => {
    await using app = await appForBrowser({ env: DEVICE });
    const asked = await ask(app);
    await withKeysPage(browser(), app, { at: `#ask=${asked.user_code}` }, async ({ page, context }) => {
      await page.getByText('whether a program gets the key that it waits for').waitFor();
      const other = await context.newPage();
      await other.goto(`${app.url}/keys${(await link(app)).at}`);
      await other.getByText('No API keys yet').waitFor();
      expect(await other.getByRole('heading', { name: 'A program asks for a key' }).count()).toBe(0);
      await follow(page, await link(app));
      await page.getByRole('heading', { name: 'Sign in as alice?' }).waitFor();
      await page.getByRole('button', { name: 'Sign in as alice' }).click();
      await page.getByText(asked.user_code, { exact: true }).waitFor();
    });
  });

  test('that is left leaves the focus where it began; and where no program can ask, a link to one says so', async () => {
    await using app = await appForBrowser({ env: DEVICE });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByRole('link', { name: 'A program asks for a key' }).click();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByText('No API keys yet').waitFor();
      expect(await page.evaluate(() => document.activeElement?.textContent?.trim())).toBe('A program asks for a key');
    });
    await using without = await appForBrowser();
    await withKeysPage(browser(), without, { at: '#ask=BCDF-GHJK' }, async ({ page }) => {
      await page.getByText('On this server no program can ask for a key.').waitFor();
      await pasteToken(page, await without.token('alice'));
      await page.getByText('No API keys yet').waitFor();
      await page.evaluate(() => location.assign('#ask=BCDF-GHJK'));
      await page.getByText('On this server no program can ask for a key.').waitFor();
    });
  });

  test('that is left keeps the focus in sight, however many rows are open above it', async () => {
    await using app = await appForBrowser({ env: DEVICE });
    const names = Array.from({ length: 12 }, (_, index) => `key ${index}`);
    for (const name of names) await app.createKey('alice', { name });
    const small = { ...(await link(app)), viewport: { width: 390, height: 600 } };
    await withKeysPage(browser(), app, small, async ({ page }) => {
      for (const name of names)
        await page.getByRole('button', { name: `More about ${name}`, exact: true }).press('Enter');
      await page
        .getByText(/^Made by alice/)
        .nth(names.length - 1)
        .waitFor();
      const asks = page.getByRole('link', { name: 'A program asks for a key' });
      await asks.press('Enter');
      await page.getByRole('button', { name: 'Cancel' }).press('Enter');
      await asks.and(page.locator(':focus')).waitFor();
      const { top, bottom, height } = await asks.evaluate(async (element) => {
        for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame); // rows get their height
        const box = element.getBoundingClientRect();
        return { top: box.top, bottom: box.bottom, height: innerHeight };
      });
      expect(top).toBeGreaterThan(0);
      expect(bottom).toBeLessThan(height + 1); // it is scrolled to whole pixels
    });
  });

  test('is refused, after the code of the link was confirmed', async () => {
    await using app = await appForBrowser({ env: DEVICE });
    const asked = await ask(app);
    const at = asked.verification_uri_complete.replace(`${app.url}/keys`, '');
    expect(at).toStartWith('#ask=');
    await withKeysPage(browser(), app, { at }, async ({ page }) => {
      expect(page.url()).toBe(`${app.url}/keys`);
      await pasteToken(page, await app.token('alice'));
      await page.getByText(asked.user_code, { exact: true }).waitFor();
      await page.getByRole('button', { name: 'Yes, it shows this code' }).click();
      // Screen readers read what changes in an element, not one that comes with its text.
      const status = await page.getByRole('status').first().elementHandle();
      await page.getByRole('button', { name: 'Refuse' }).click();
      await page.getByRole('status').getByText('Refused: the program gets no key.').waitFor();
      expect(await status?.textContent()).toBe('Refused: the program gets no key.');
      app.clock.advance(10_000);
      expect((await pollForKey(app, asked.device_code)).body).toMatchObject({ error: 'access_denied' });
      expect((await historyOf(page)).join(' ')).not.toContain('ask=');
    });
  });

  test('is decided with the keyboard alone, and the focus is never lost', async () => {
    await using app = await appForBrowser({ env: DEVICE });
    const asked = await ask(app);
    await withKeysPage(browser(), app, { at: `#ask=${asked.user_code}` }, async ({ page }) => {
      const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? '');
      const press = async (name: string) => {
        for (let tabs = 0; tabs < 30 && (await focused()) !== name; tabs++) await page.keyboard.press('Tab');
        expect(await focused()).toBe(name);
        await page.keyboard.press('Enter');
      };
      await pasteToken(page, await app.token('alice'));
      await page.getByText('Does the program that you started show this code?').waitFor();
      expect(await focused()).toBe('A program asks for a key');
      await press('Yes, it shows this code');
      await page.getByText('in its own words').waitFor();
      expect(await focused()).toBe('A program asks for a key');
      await press('Make the key');
      await page.getByText('It may do nothing yet.').waitFor();
      expect(await page.evaluate(() => (document.activeElement as HTMLInputElement).name)).toBe('scopes');
      await press('Make the key');
      await page.getByText('The program gets its key').waitFor();
      expect(await page.evaluate(() => document.activeElement !== document.body)).toBe(true);
    });
  });
});
