// Answers that the page /keys does not get: the connection is lost before or after the server decides, or a proxy in
// between answers in its own words.

import { test } from 'bun:test';
import type { Page, Route } from 'playwright-core';
import { describeInBrowser } from '../../support/browser.ts';
import type { TestApp } from '../../support/test-app.ts';
import { appForBrowser, withKeysPage } from './keys-page.ts';

const link = async (app: TestApp) => ({ at: `#token=${await app.token('alice')}`, quiet: true });
const alerted = (page: Page, words: string) => page.getByRole('alert').getByText(words, { exact: true }).waitFor();

const CHANGED = 'No answer came. It may have worked all the same: refresh the list to see.';
const LOST: Record<string, (route: Route) => Promise<void>> = {
  'a lost connection': (route) => route.abort(),
  'a page of a proxy': (route) => route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad Gateway' }),
  'JSON of a gateway': (route) => route.fulfill({ status: 502, json: { message: 'no Route matched' } }),
  'a limit of a gateway': (route) =>
    route.fulfill({ status: 429, headers: { 'Retry-After': '7' }, json: { message: 'API rate limit exceeded' } }),
};

describeInBrowser('no answer of the server', (browser) => {
  test.each(Object.entries(LOST))('but %s is said in a sentence', async (_, respond) => {
    await using app = await appForBrowser();
    await app.createKey('alice', { name: 'billing' });
    await withKeysPage(browser(), app, await link(app), async ({ page }) => {
      await page.getByText('1 key', { exact: true }).waitFor();
      await page.route('**/tools/*', respond);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText('The list could not be refreshed. No answer came. Try again.').waitFor();
      await page.getByRole('button', { name: 'Create a key' }).click();
      await page.getByRole('textbox', { name: 'Name' }).fill('another');
      await page.getByRole('textbox', { name: 'Other scopes' }).fill('read');
      await page.getByRole('button', { name: 'Create key' }).click();
      await alerted(page, CHANGED);
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('button', { name: 'Rotate billing' }).click();
      await page.getByRole('group', { name: 'Rotate billing?' }).getByRole('button', { name: 'Rotate' }).click();
      await alerted(page, CHANGED);
    });
  });
});
