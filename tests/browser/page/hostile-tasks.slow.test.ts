// What strangers write where a person decides on a key: names and scopes of a program, states, hosts and resources of a
// client, in requests that are good and in links that are made up.

import { expect, test } from 'bun:test';
import type { Page } from 'playwright-core';
import { describeInBrowser } from '../../support/browser.ts';
import { rows } from '../../support/everything.ts';
import { register } from '../../support/hand-over.ts';
import { askForKey } from '../../support/key-request.ts';
import { appForBrowser, pasteToken, withKeysPage } from './keys-page.ts';

const ENV = { OAUTH_DEVICE: '1', OAUTH_REDIRECTS: 'loopback https://client.example/*' };
const MARKUP = '"><img src=x onerror=alert(1)><script>alert(2)</script>';
const TEXTS = rows(
  [
    MARKUP,
    '﷽'.repeat(200), // wide characters
    '\u202Etfel ot thgir\u2066 Approve this\u202C', // in another direction
    'w'.repeat(200),
  ],
  1,
);

async function expectHarmless(page: Page): Promise<void> {
  expect(await page.locator('img, iframe, script:not([type])[src]').count()).toBe(0);
  for (const width of [320, 1100]) {
    await page.setViewportSize({ width, height: 800 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    const { height = 0 } = (await page.getByRole('button', { name: /^Make the key/ }).boundingBox()) ?? {};
    expect(height).toBeGreaterThan(0); // it is there to be pressed
  }
}

describeInBrowser('a program that asks', (browser) => {
  test('names itself, and its scopes, with whatever it likes', async () => {
    await using app = await appForBrowser({ env: ENV });
    const scopes = Array.from({ length: 100 }, (_, at) => `${at}-<b>${'s'.repeat(90)}`).join(' ');
    for (const text of TEXTS) {
      const { status, body } = await askForKey(app, { client_name: text, scope: scopes });
      expect(status).toBe(200);
      await withKeysPage(browser(), app, { at: `#ask=${body.user_code}` }, async ({ page }) => {
        await pasteToken(page, await app.token('alice'));
        await page.getByRole('button', { name: 'Yes, it shows this code' }).click();
        await page.getByText('in its own words').waitFor();
        expect(await page.locator('dd').first().textContent()).toContain(text.slice(0, 5));
        await expectHarmless(page);
        expect(await page.getByRole('checkbox', { checked: true }).count()).toBe(0);
      });
    }
  });
});

describeInBrowser('a link to a decision', (browser) => {
  const connect = (page: URL) => `#connect=${encodeURIComponent(page.search.slice(1))}`;

  test('has whatever it likes as its state, scopes and server', async () => {
    await using app = await appForBrowser({ env: ENV });
    const client = await register(app, ['https://client.example/connector']);
    for (const text of TEXTS) {
      for (const changed of [
        { state: text, scope: text },
        { resource: text, redirect_uri: `https://client.example/${encodeURIComponent(text)}` },
      ]) {
        await withKeysPage(browser(), app, { at: connect(client.page(changed)) }, async ({ page }) => {
          await pasteToken(page, await app.token('alice'));
          await page.getByRole('heading', { name: /handed to client.example/ }).waitFor();
          await expectHarmless(page);
        });
      }
    }
  });

  test('has a client whose name is an element, as the page describes them', async () => {
    await using app = await appForBrowser({ env: ENV });
    const client = await register(app);
    const name = { tag: 'a', properties: { href: 'https://evil.example' }, children: ['Sign in again'] };
    const id = `${Buffer.from(JSON.stringify([name])).toString('base64url')}.${'0'.repeat(64)}`;
    await withKeysPage(browser(), app, { at: connect(client.page({ client_id: id })) }, async ({ page }) => {
      await pasteToken(page, await app.token('alice'));
      await page.getByRole('heading', { name: /handed to a program on this computer/ }).waitFor();
      expect(await page.getByText('Sign in again').count()).toBe(0);
    });
  });

  test('leads to nowhere but where the server sends it', async () => {
    await using app = await appForBrowser({ env: ENV });
    const client = await register(app, ['https://client.example/connector']);
    for (const redirect of [
      'javascript:alert(1)//https://client.example',
      'data:text/html,<script>alert(1)</script>',
      MARKUP,
      '',
    ]) {
      const at = connect(client.page({ redirect_uri: redirect }));
      await withKeysPage(browser(), app, { at }, async ({ page }) => {
        await pasteToken(page, await app.token('alice'));
        const make = page.getByRole('button', { name: 'Make the key and hand it over' });
        await make.click();
        await page.getByText('It may do nothing yet.').waitFor();
        await make.click();
        await page.getByRole('alert').getByText('not one that the program has registered').waitFor();
        expect(page.url()).toBe(`${app.url}/keys`);
      });
    }
  });

  test('has a text in place of a code, which is not shown: the code is typed', async () => {
    await using app = await appForBrowser({ env: ENV });
    const { body } = await askForKey(app, { client_name: 'backup' });
    const at = `#ask=${encodeURIComponent('Your keys are at risk. Call 555-0100.')}`;
    await withKeysPage(browser(), app, { at }, async ({ page }) => {
      await pasteToken(page, await app.token('alice'));
      await page.getByLabel('The code that the program shows').fill(body.user_code.replace('-', ' '));
      expect(await page.getByText('555-0100').count()).toBe(0);
      await page.keyboard.press('Enter');
      await page.getByText('“backup”, in its own words').waitFor();
      for (const code of [body.user_code, body.user_code.toLowerCase(), body.user_code.replace('-', '')]) {
        await page.evaluate((hash) => location.assign(hash), `#ask=${code}`);
        await page.getByText(code, { exact: true }).waitFor();
      }
    });
  });
});
